package slo

import (
	"fmt"
	"strings"
	"time"
)

// Objectives are the times that 99 of 100 spans may take.
type Objectives struct {
	// Default is for resources that are not in Resources. Zero means one second.
	Default time.Duration
	// Resources are named as in "pods" or "deployments.apps".
	Resources map[string]time.Duration
}

// forResource returns the objective of a resource.
func (o *Objectives) forResource(name string) time.Duration {
	if d, ok := o.Resources[name]; ok {
		return d
	}
	return o.forOthers()
}

// forOthers returns the objective of resources that have none of their own.
func (o *Objectives) forOthers() time.Duration {
	if o.Default > 0 {
		return o.Default
	}
	return time.Second
}

// ParseObjectives parses the value of --watch-slo: a time for all resources, times for
// some, or both, as in "1s,pods=500ms,events=5s".
func ParseObjectives(text string) (Objectives, error) {
	o := Objectives{Resources: map[string]time.Duration{}}
	for _, item := range strings.Split(text, ",") {
		name, value, named := strings.Cut(strings.TrimSpace(item), "=")
		if !named {
			name, value = "", name
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 || named && name == "" {
			return o, fmt.Errorf("%q is no objective: give a time, or resource=time, such as 1s,pods=500ms,deployments.apps=2s", item)
		}
		if named {
			o.Resources[name] = d
		} else {
			o.Default = d
		}
	}
	return o, nil
}
