package counterpart

import (
	"fmt"
	"strings"
)

// contextLines is the number of equal lines around a change in a unified diff.
const contextLines = 3

// lineEdit is a line of a diff: kept (' '), removed ('-') or added ('+').
type lineEdit struct {
	kind     byte
	text     string
	from, to int // number of lines before it in either text
}

// unifiedDiff returns the difference of two texts as hunks of a unified diff, without a
// header. firstFrom and firstTo are the numbers of the texts' first lines. The result is
// empty if the texts are equal.
//
// unifiedDiff needs memory for the product of the numbers of changed lines. Declarations have
// at most some hundred lines.
func unifiedDiff(from, to string, firstFrom, firstTo int) string {
	edits := lineEdits(splitLines(from), splitLines(to))
	var b strings.Builder
	for i := 0; i < len(edits); {
		if edits[i].kind == ' ' {
			i++
			continue
		}
		first := max(0, i-contextLines)
		end := hunkEnd(edits, i)
		writeHunk(&b, edits[first:end], firstFrom, firstTo)
		i = end
	}
	return b.String()
}

// hunkEnd returns the end of the hunk with the change at edits[change]. The hunk ends before a gap
// of more equal lines than the contexts of two hunks need, or with the edits.
func hunkEnd(edits []lineEdit, change int) int {
	last := change
	for i := change; i < len(edits) && i-last-1 <= 2*contextLines; i++ {
		if edits[i].kind != ' ' {
			last = i
		}
	}
	return min(len(edits), last+1+contextLines)
}

// writeHunk writes the header and the lines of a hunk.
func writeHunk(b *strings.Builder, edits []lineEdit, firstFrom, firstTo int) {
	var fromCount, toCount int
	for _, edit := range edits {
		if edit.kind != '+' {
			fromCount++
		}
		if edit.kind != '-' {
			toCount++
		}
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", firstFrom+edits[0].from, fromCount, firstTo+edits[0].to, toCount)
	for _, edit := range edits {
		fmt.Fprintf(b, "%c%s\n", edit.kind, edit.text)
	}
}

// splitLines returns the lines of a text without their ends. An empty text has no lines.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// lineEdits returns a shortest edit of one text to the other: the lines of both texts,
// where the lines of a longest common subsequence are kept.
func lineEdits(from, to []string) []lineEdit {
	head := 0
	for head < len(from) && head < len(to) && from[head] == to[head] {
		head++
	}
	tail := 0
	for tail < len(from)-head && tail < len(to)-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	lengths := commonLengths(from[head:len(from)-tail], to[head:len(to)-tail])
	var edits []lineEdit
	var i, j int
	add := func(kind byte, text string) {
		edits = append(edits, lineEdit{kind: kind, text: text, from: i, to: j})
		if kind != '+' {
			i++
		}
		if kind != '-' {
			j++
		}
	}
	for i < len(from) || j < len(to) {
		fromDone, toDone := i >= len(from)-tail, j >= len(to)-tail
		switch {
		case i < head, fromDone && toDone:
			add(' ', from[i])
		case fromDone:
			add('+', to[j])
		case toDone:
			add('-', from[i])
		case from[i] == to[j]:
			add(' ', from[i])
		case lengths[i-head+1][j-head] >= lengths[i-head][j-head+1]:
			add('-', from[i])
		default:
			add('+', to[j])
		}
	}
	return edits
}

// commonLengths returns for each pair of suffixes the length of their longest common
// subsequence.
func commonLengths(from, to []string) [][]int {
	lengths := make([][]int, len(from)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	return lengths
}
