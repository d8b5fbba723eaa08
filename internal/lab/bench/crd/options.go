package crd

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

// Data are the objects that "bench crd" and "bench discovery" fill in.
type Data struct {
	CRDs       int `json:"crds"`
	Groups     int `json:"groups"`
	Properties int `json:"properties"` // of each definition's schema
	Objects    int `json:"objects"`    // custom objects, over all definitions
}

// String returns the data in words.
func (d Data) String() string {
	text := fmt.Sprintf("%d definitions of %d properties in %d groups", d.CRDs, d.Properties, d.Groups)
	if d.Objects > 0 {
		text += fmt.Sprintf(", %d custom objects", d.Objects)
	}
	return text
}

// Shape returns the definitions to fill in.
func (o *Options) Shape() fill.Shape {
	d := o.Data
	return fill.Shape{Seed: o.Seed(), CRDs: d.CRDs, Groups: d.Groups, Properties: d.Properties, Objects: d.Objects}
}

// Plan says how the server is measured.
type Plan struct {
	Workers int           `json:"workers"`      // requests in flight while definitions are installed or deleted
	Samples int           `json:"samples"`      // kinds that are listed, and as many others that are written
	Rest    time.Duration `json:"restNanos"`    // before memory is read
	Timeout time.Duration `json:"timeoutNanos"` // for one step
}

// Options are the flags that "bench crd" and "bench discovery" share.
type Options struct {
	compare bool
	testbed.Options
	Data   Data
	Plan   Plan
	Output string
	From   string
}

// AddFlags adds the flags of the servers and definitions.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.compare, "compare", false, "measure both of --read-paths, one after the other, and compare them; without it only the first")
	o.AddServerFlags(f)
	f.IntVar(&o.Data.CRDs, "crds", 300, "custom resource definitions to install")
	f.IntVar(&o.Data.Groups, "groups", 60, "API groups to spread them over")
	f.IntVar(&o.Data.Properties, "properties", fill.DefaultProperties,
		"properties in the schema of each definition, including nested properties")
	f.IntVar(&o.Data.Objects, "objects", 0, "custom objects to create, spread over all definitions")
	f.IntVar(&o.Plan.Workers, "workers", 16, "requests in flight that install and delete definitions")
	f.IntVar(&o.Plan.Samples, "samples", 100, "kinds that are asked for, and as many other kinds that are written to; at most half of all")
	f.DurationVar(&o.Plan.Rest, "rest", 30*time.Second,
		"how long a server is left alone before its memory is read; until then it must have become idle")
	f.DurationVar(&o.Plan.Timeout, "timeout", time.Hour, "give a step up after this time")
}

// Validate checks what can be checked before a server runs.
func (o *Options) Validate() error {
	if err := testbed.CheckMinimums([]testbed.Minimum[int]{
		{Flag: "crds", Value: o.Data.CRDs, Min: 2}, {Flag: "groups", Value: o.Data.Groups, Min: 1},
		{Flag: "objects", Value: o.Data.Objects, Min: 0},
		{Flag: "workers", Value: o.Plan.Workers, Min: 1}, {Flag: "samples", Value: o.Plan.Samples, Min: 1},
	}); err != nil {
		return err
	}
	if err := testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "rest", Value: o.Plan.Rest, Min: 0}, {Flag: "timeout", Value: o.Plan.Timeout, Min: time.Second},
		{Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	}); err != nil {
		return err
	}
	if _, err := fill.NewGenerator(o.Shape()); err != nil {
		return err
	}
	return o.Options.Validate()
}

// measuredReadPaths returns the read paths to measure: without --compare only the first.
func (o *Options) measuredReadPaths() []string {
	if o.compare {
		return o.ReadPaths
	}
	return o.ReadPaths[:1]
}

// sampleDefinitions returns the definitions whose objects are listed, and other definitions whose
// objects are only written. Both samples are spread evenly over all definitions.
func (o *Options) sampleDefinitions() (listed, written []int) {
	samples := min(o.Plan.Samples, o.Data.CRDs/2)
	for i := range samples {
		first := i * o.Data.CRDs / samples
		listed = append(listed, first)
		written = append(written, first+1)
	}
	return listed, written
}
