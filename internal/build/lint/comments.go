package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// longSentences finds sentences of comments that are too long to be understood in one reading.
func longSentences(t *Tree) []Finding {
	return findInSentences(t, func(sentence string) string {
		if words := len(strings.Fields(sentence)); words > maxSentenceWords {
			return fmt.Sprintf("a sentence of %d words, at most %d: split it: %s", words, maxSentenceWords, sentence)
		}
		return ""
	})
}

// behindWithoutLag finds comments in which "behind" does not mean lag, but order, a proxy or a
// place.
func behindWithoutLag(t *Tree) []Finding {
	return findInSentences(t, func(sentence string) string {
		if behindWord.MatchString(behindAsLag.ReplaceAllString(sentence, "")) {
			return `says "behind" without lag: write after, proxied by, or at: ` + sentence
		}
		return ""
	})
}

var (
	behindWord  = regexp.MustCompile(`(^|[^"\w])behind\b|^Behind (an?|it|that|the)\b`)
	behindAsLag = regexp.MustCompile(`\b(far|lags?|lagged|lagging|falls?|fell|falling) behind\b`)
)

// none finds comments in which a value "is none". It takes a moment to find out that nil stands
// for an absent thing.
func none(t *Tree) []Finding {
	return findInSentences(t, func(sentence string) string {
		if noneWord.MatchString(sentence) {
			return `says that something "is none": say what it stands for, or what it is not: ` + sentence
		}
		return ""
	})
}

var noneWord = regexp.MustCompile(`\b[Nn]il is (none|no)\b|\bif it is none\b|\bthat is none\b`)

// pronouns finds comments with a pronoun that stands for one of several nouns before it. A reader
// has to go back and look which one it is. Tests are left out.
func pronouns(t *Tree) []Finding {
	found := findInSentences(t, func(sentence string) string {
		if phrase := headlessPhrase.FindString(sentence); phrase != "" {
			return fmt.Sprintf("says %q: repeat the noun: %s", strings.TrimSpace(phrase), sentence)
		}
		return ""
	})
	return slices.DeleteFunc(found, func(f Finding) bool { return strings.HasSuffix(f.Key, "_test.go") })
}

// headlessPhrase leaves out "the former state" and "of both kinds", where the noun follows.
var headlessPhrase = regexp.MustCompile(`\b[Tt]hose (?:of|that|which|who|whose|with|without|before|after|above|below|beyond)\b|` +
	`\b(?:[Tt]he (?:latter|former)|[Oo]f (?:both|these|those))(?:[.,;:)]|$| (?:is|are|was|were|has|have|may|must|can|for|in|at|by|and|that|two)\b)`)

// causatives finds comments that say "has X do" for "makes X do": a reader takes it for
// possession until the verb comes.
func causatives(t *Tree) []Finding {
	return findInSentences(t, func(sentence string) string {
		if match := causative.FindStringSubmatch(sentence); match != nil && !clauseWord.MatchString(match[1]) {
			return `says "has X do": write makes, lets, tells or starts: ` + sentence
		}
		return ""
	})
}

// causative matches the beginning of a sentence up to a verb without an ending. Verbs that
// are mostly nouns in comments, such as read and write, are left out. clauseWord matches
// words between both that show that the verb belongs to a clause of its own.
var (
	causative  = regexp.MustCompile(`(?:^\S+|\band) has ((?:[\w/'-]+ ){1,5}?)(?:ask|become|begin|break|close|come|convert|decode|do|encode|fail|find|follow|forget|go|hold|keep|know|leave|lose|make|refuse|send|serve|take|tell|wait|wake)\b`)
	clauseWord = regexp.MustCompile(`\b(?:and|can|did|do|does|for|may|must|not|of|or|that|to|which|who|whose|will)\b`)
)

// findInSentences calls problem with each sentence of the tree's comments. It returns a finding
// for each result that is not "".
func findInSentences(t *Tree, problem func(sentence string) string) []Finding {
	var found []Finding
	for _, file := range t.Go {
		if ast.IsGenerated(file.Syntax) {
			continue
		}
		for _, group := range file.Syntax.Comments {
			for _, p := range t.commentParagraphs(group) {
				for sentence := range strings.SplitSeq(sentenceEnd.ReplaceAllString(p.text, "$1\n"), "\n") {
					if text := problem(sentence); text != "" {
						found = append(found, Finding{Key: file.Name, Line: p.line, Text: text})
					}
				}
			}
		}
	}
	return found
}

// sentenceEnd matches the end of a sentence and the space after it.
var sentenceEnd = regexp.MustCompile(`([.?!]["')]*) `)

// commentParagraph is the joined text of some lines of a comment.
type commentParagraph struct {
	line int // of its first line, from 1
	text string
}

// commentParagraphs returns the paragraphs of a comment. An empty line, a heading and a
// line that is indented end one. Indented lines are drawings and code, and are left out.
func (t *Tree) commentParagraphs(group *ast.CommentGroup) []commentParagraph {
	var all []commentParagraph
	open := false
	for _, comment := range group.List {
		text, ok := strings.CutPrefix(comment.Text, "// ")
		if !ok || text == "" || strings.ContainsAny(text[:1], " \t#") {
			open = false
			continue
		}
		if !open {
			all = append(all, commentParagraph{line: t.line(comment.Pos()), text: text})
		} else {
			all[len(all)-1].text += " " + text
		}
		open = true
	}
	return all
}
