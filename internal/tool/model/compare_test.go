package model

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/tool/price"
)

// reports is the directory of this repository's reports.
const reports = "../../../docs/bench"

func defaultConstants(t *testing.T) Constants {
	t.Helper()
	c, err := DefaultConstants()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConstants checks that the constants in the binary follow from docs/bench.
func TestConstants(t *testing.T) {
	want, err := Derive(reports)
	if err != nil {
		t.Fatal(err)
	}
	if *updateFlag {
		var text bytes.Buffer
		if err := errors.Join(want.write(&text), os.WriteFile("constants.json", text.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		return // those in the binary are still the old ones
	}
	if got := defaultConstants(t); !reflect.DeepEqual(got, want) {
		for _, name := range want.names() {
			if got[name] != want[name] {
				t.Errorf("%s is %+v in the binary and %+v in the reports", name, got[name], want[name])
			}
		}
		t.Error("make them anew: make scale")
	}
	for name, c := range want {
		if c.Source == "" || c.Meaning == "" || c.Unit == "" || c.Origin == "" {
			t.Errorf("%s does not say what it is, or where it comes from: %+v", name, c)
		}
	}
}

// farRows are the figures that are known to deviate more, with the most that they may deviate. The
// price of a byte comes from pods, whose texts are shorter than the texts of nodes. One and three
// servers are closer. With 10,000 informers only a hundred writes were measured: one slow write of
// the disk, or one pause of a collector, decides the p99. The simulation has neither, so its p99 is
// below the measured one.
var farRows = map[[2]string]float64{
	{"2 × kube-apiserver", "LIST of all nodes, CPU"}: 0.3,
	{"depth 0, 10,000 informers", "event p99"}:       -0.9,
	{"depth 1, 10,000 informers", "event p99"}:       -0.35,
}

// TestCompare compares the model with docs/bench/tree.json and servers.json. Each figure must be
// within a quarter of the measured one, even if no constant comes from its row: 10,000 informers,
// and all LISTs. farRows are the exceptions.
func TestCompare(t *testing.T) {
	all, err := Compare(reports, defaultConstants(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	checks := 0
	for i := range all {
		c := &all[i]
		if c.Check {
			checks++
		}
		far := farRows[[2]string{c.Row, c.Figure}]
		if least, most := min(-tolerance, far), max(tolerance, far); c.Deviation() < least || c.Deviation() > most {
			t.Errorf("%s: %s is %g, and %g was measured: %+.0f %%", c.Row, c.Figure, c.Model, c.Measured, 100*c.Deviation())
		}
	}
	if checks < 30 {
		t.Errorf("only %d figures of fleets above %d informers were checked", checks, calibrationInformers)
	}
	if again, _ := Compare(reports, defaultConstants(t), 1); !reflect.DeepEqual(again, all) {
		t.Error("the same seed gave other figures")
	}
}

func TestDeriveErrors(t *testing.T) {
	if _, err := Derive(t.TempDir()); err == nil || !strings.Contains(err.Error(), listFile) {
		t.Errorf("got %v, want an error that names %s", err, listFile)
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 4.2049e-5: 4.2e-5, 1234567: 1230000, 0.379: 0.379, 99.96: 100} {
		if got := price.ThreeDigits(v); got != want {
			t.Errorf("%g: got %g, want %g", v, got, want)
		}
	}
}
