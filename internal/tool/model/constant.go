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
	Measured  Origin = "measured"  // a report has it, as it is or as a difference of two rows
	Derived   Origin = "derived"   // computed from several measured ones
	Assumed   Origin = "assumed"   // nobody has measured it for this model
	Simulated Origin = "simulated" // only in results
)

// Constant is the price of one thing.
type Constant struct {
	Value float64 `json:"value"`
	// Unit is s (seconds, also of one processor), B (bytes), s/B, B/B or 1/s.
	Unit   string `json:"unit"`
	Origin Origin `json:"origin"`
	// Source is the report and its rows, or what an assumption rests on.
	Source  string `json:"source"`
	Meaning string `json:"meaning"`
}

// Constants are all prices by name, such as kubernetes.event.
type Constants map[string]Constant

//go:embed constants.json
var embedded []byte

// DefaultConstants returns those in the binary.
func DefaultConstants() (Constants, error) {
	d := json.NewDecoder(bytes.NewReader(embedded))
	d.DisallowUnknownFields()
	var c Constants
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("read constants in the binary: %w", err)
	}
	return c, nil
}

// write prints constants as DefaultConstants reads them.
func (c Constants) write(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("write constants: %w", err)
	}
	return nil
}

func (c Constants) names() []string { return slices.Sorted(maps.Keys(c)) }

// constantReader reads constants by name and notes the first that is not there.
type constantReader struct {
	constants Constants
	err       error
}

func (r *constantReader) value(name string) float64 {
	c, ok := r.constants[name]
	if !ok && r.err == nil {
		r.err = fmt.Errorf("there is no constant %s: make them anew with make scale", name)
	}
	return c.Value
}
