package counterpart

import (
	"fmt"
	"strings"
)

// context is how many equal lines stand around a change in a unified diff.
const context = 3

// lineEdit is a line of a diff: kept (' '), removed ('-') or added ('+'). from and to are
// the numbers of the lines that stand before it in either text.
type lineEdit struct {
	kind     byte
	text     string
	from, to int
}

// unified returns the difference of two texts as hunks of a unified diff, without a
// header. firstFrom and firstTo are the numbers of the texts' first lines. It is empty
// if the texts are equal.
//
// It needs memory for the product of the numbers of changed lines. Declarations have at
// most some hundred lines.
func unified(from, to string, firstFrom, firstTo int) string {
	edits := lineEdits(splitLines(from), splitLines(to))
	var b strings.Builder
	for at := 0; at < len(edits); {
		if edits[at].kind == ' ' {
			at++
			continue
		}
		first := max(0, at-context)
		end := hunkEnd(edits, at)
		writeHunk(&b, edits[first:end], firstFrom, firstTo)
		at = end
	}
	return b.String()
}

// hunkEnd returns the end of the hunk with the change at an index. After it come more
// equal lines than two hunks need for their contexts, or none.
func hunkEnd(edits []lineEdit, at int) int {
	last := at
	for i := at; i < len(edits) && i-last-1 <= 2*context; i++ {
		if edits[i].kind != ' ' {
			last = i
		}
	}
	return min(len(edits), last+1+context)
}

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

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// lineEdits returns a shortest way from one text to the other: all lines of both, with
// the lines of a longest common subsequence as kept ones.
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
	i, j := 0, 0
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
