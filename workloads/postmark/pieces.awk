# SPDX-License-Identifier: Apache-2.0
# awk -f pieces.awk TEXT FILE: is the file one or more beginnings of the text, one after the other? Both are one line at most.

# How far two strings are the same.
function common(a, b,    low, high, middle) {
	high = length(a)
	while (low < high) {
		middle = int((low + high + 1) / 2)
		if (substr(a, 1, middle) == substr(b, 1, middle))
			low = middle
		else
			high = middle - 1
	}
	return low
}

# A piece may end earlier than where the two differ, if the next one begins as the text goes on.
function pieces(rest,    length_of_piece) {
	if (rest == "")
		return 1
	for (length_of_piece = common(rest, text); length_of_piece > 0; length_of_piece--)
		if (pieces(substr(rest, length_of_piece + 1)))
			return 1
	return 0
}

BEGIN { whole = 1 }
FNR == NR { text = $0; next }
{ whole = pieces($0) }
END { exit !whole }
