package model

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var updateFlag = flag.Bool("update", false, "write constants.json, docs/bench/tables/scale.md, and the plots of docs/scale.md, anew")

// scaleTables is the document that the command prints, scalePage the one that explains it,
// and scalePlots are the plots of the latter.
const (
	scaleTables = "../../../docs/bench/tables/scale.md"
	scalePage   = "../../../docs/scale.md"
)

var scalePlots = map[string]string{"../../../docs/scale.svg": "-o svg", "../../../docs/scale-memory.svg": "-o svg --plot=memory"}

// Marks around a part of the page that a command prints.
const (
	printedMark = "<!-- Printed by millrace-tools model "
	markEnd     = " -->\n"
	endMark     = "<!-- End of what is printed. -->"
)

// breaksFirst matches the number of nodes at which a printed line says that something breaks.
var breaksFirst = regexp.MustCompile(`the first limit is .*?, at about ([\d,]+) nodes`)

// TestScaleTables checks that docs/bench/tables/scale.md has what the commands print that it
// names, and that docs/scale.md has the numbers of nodes at which something breaks first.
func TestScaleTables(t *testing.T) {
	page, err := os.ReadFile(scaleTables)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), printedMark)
	if len(parts) < 4 {
		t.Fatalf("the page has %d parts that are printed", len(parts)-1)
	}
	written := parts[0]
	for _, part := range parts[1:] {
		args, rest, ok := strings.Cut(part, markEnd)
		has, after, ended := strings.Cut(rest, endMark)
		if !ok || !ended {
			t.Fatalf("a mark of the page has no end: %.100q", part)
		}
		flags := strings.Fields(args)
		if flags[0] == "check" {
			flags = append(flags, "--reports="+reports)
		}
		want, err := execute(t, append(flags, "-o", "markdown")...)
		if err != nil {
			t.Fatalf("millrace-tools model %s: %v", args, err)
		}
		if want = "\n" + want + "\n"; has != want && !*updateFlag {
			t.Errorf("the page has other figures than millrace-tools model %s: make scale", args)
		}
		written += printedMark + args + markEnd + want + endMark + after
	}
	if *updateFlag {
		if err := os.WriteFile(scaleTables, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	explained, err := os.ReadFile(scalePage)
	if err != nil {
		t.Fatal(err)
	}
	for _, nodes := range breaksFirst.FindAllStringSubmatch(written, -1) {
		if !strings.Contains(string(explained), " "+nodes[1]) {
			t.Errorf("docs/scale.md lacks that something breaks at %s nodes", nodes[1])
		}
	}
}

// TestScalePlots checks that the plots are what the command draws.
func TestScalePlots(t *testing.T) {
	for file, args := range scalePlots {
		want, err := execute(t, strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		if *updateFlag {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if has, err := os.ReadFile(file); err != nil || string(has) != want {
			t.Errorf("%s is not what millrace-tools model %s prints (%v): make scale", file, args, err)
		}
	}
}
