package benchtest

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// WellFormedSVG returns the plot as SVG, and fails the test if that is not XML.
func WellFormedSVG(t *testing.T, p interface{ SVG() string }) string {
	t.Helper()
	svg := p.SVG()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return svg
		} else if err != nil {
			t.Fatalf("plot is not XML: %v\n%s", err, svg)
		}
	}
}

// Updates reports whether the flag -update was given.
func Updates() bool { return *update }

// CheckGolden compares texts with the files testdata/NAME.golden. The flag -update
// rewrites the files.
func CheckGolden(t *testing.T, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s differs; -update rewrites it. Got:\n%s", path, text)
		}
	}
}
