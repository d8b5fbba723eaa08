package lint

import (
	"fmt"
	"regexp"
	"strings"
)

// paragraphs finds paragraphs of documents that are too long to be read in one go.
// Tables and code are left out. An item of a list is a paragraph of its own.
func paragraphs(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Other {
		if !isDocument(file.Name) {
			continue
		}
		for _, p := range proseOf(string(file.Data)) {
			if p.words > maxParagraphWords {
				found = append(found, Finding{
					Key: file.Name, Line: p.line,
					Text: fmt.Sprintf("a paragraph of %d words, at most %d: split it", p.words, maxParagraphWords),
				})
			}
		}
	}
	return found
}

// isDocument reports whether the rule of paragraphs applies to a file. The changelog is
// left out, as its entries are written once.
func isDocument(name string) bool {
	return name == "README.md" || name == "CONTRIBUTING.md" || name == "SECURITY.md" ||
		strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md")
}

// paragraph is a run of lines that Markdown shows as one block of text.
type paragraph struct {
	line  int // of its first line, from 1
	words int
}

// listItem matches the line that begins an item of a list, numbered or not.
var listItem = regexp.MustCompile(`^\s*([*+-]|\d+[.)])\s`)

// proseOf returns the paragraphs of a Markdown text. It understands as much of Markdown
// as documents of this module use. A blank line, a heading, an item of a list, a table
// and code each end a paragraph. Tables and code are no paragraphs themselves.
func proseOf(text string) []paragraph {
	var all []paragraph
	var r proseReader
	number := 0
	for line := range strings.Lines(text) {
		number++
		switch r.classify(strings.TrimRight(line, "\r\n")) {
		case beginsParagraph:
			all = append(all, paragraph{line: number, words: len(strings.Fields(line))})
		case continuesParagraph:
			all[len(all)-1].words += len(strings.Fields(line))
		}
	}
	return all
}

// lineClass says how a line relates to the paragraph before it.
type lineClass int

const (
	noText lineClass = iota
	beginsParagraph
	continuesParagraph
)

// proseReader is the state after the lines that were read. The zero value is the state at the
// beginning of a text.
type proseReader struct {
	fence  string // the end of the code block that the line is in, or ""
	text   bool   // the line before belongs to a paragraph
	inList bool   // indented text belongs to an item of a list, and is no code
}

// classify returns the class of the next line, and updates the state.
func (r *proseReader) classify(line string) lineClass {
	before := r.text
	r.text = false
	trimmed := strings.TrimSpace(line)
	indented := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
	switch {
	case r.fence != "":
		if strings.HasPrefix(trimmed, r.fence) {
			r.fence = ""
		}
	case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
		r.fence = trimmed[:3]
	case trimmed == "", strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "#"):
	case listItem.MatchString(line) && (r.inList || !indented):
		r.text, r.inList = true, true
		return beginsParagraph
	case before:
		r.text = true
		return continuesParagraph
	case indented && !r.inList:
	default:
		r.text = true
		r.inList = r.inList && strings.TrimLeft(line, " \t") != line
		return beginsParagraph
	}
	return noText
}
