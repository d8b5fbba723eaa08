package model

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Origin says where a number comes from.
type Origin string

const (
	Measured  Origin = "measured"  // in a report, or the difference of two rows of a report
	Derived   Origin = "derived"   // computed from several measured numbers
	Assumed   Origin = "assumed"   // nobody has measured it for this model
	Simulated Origin = "simulated" // of results, never of a Constant
)

// Constant is one input of the model: a cost, a size, a limit or a ratio.
type Constant struct {
	Value float64 `json:"value"`
	// Unit is s (seconds of time, or of one processor), B (bytes), s/B, B/B, 1/s or 1.
	Unit   string `json:"unit"`
	Origin Origin `json:"origin"`
	// Source is the report with its rows, or what an assumption rests on. It must stand alone,
	// because lists are sorted by name.
	Source string `json:"source"`
	// Meaning completes "the value of", as in "a GET that etcd answers". It must stand alone, too.
	Meaning string `json:"meaning"`
}

// Constants are the inputs of the model by name, such as kubernetes.event.
type Constants map[string]Constant

//go:embed constants.json
var defaultJSON []byte

// DefaultConstants returns the constants in the binary.
func DefaultConstants() (Constants, error) {
	d := json.NewDecoder(bytes.NewReader(defaultJSON))
	d.DisallowUnknownFields()
	var c Constants
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("read constants in the binary: %w", err)
	}
	return c, nil
}

// write prints constants as the JSON that DefaultConstants reads.
func (c Constants) write(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("write constants: %w", err)
	}
	return nil
}

// names returns the names, sorted.
func (c Constants) names() []string { return slices.Sorted(maps.Keys(c)) }

// constantReader reads constants by name. err is the error for the first missing constant.
type constantReader struct {
	constants Constants
	err       error
}

// value returns the value of a constant, or 0 and an error in err if it is missing.
func (r *constantReader) value(name string) float64 {
	c, ok := r.constants[name]
	if !ok && r.err == nil {
		r.err = fmt.Errorf("there is no constant %s: the reports lack it, or are of another version of Millrace", name)
	}
	return c.Value
}
