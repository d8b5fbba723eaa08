package papers

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Paper is the experiments of one publication.
type Paper struct {
	// Name is that of its command.
	Name, Title string
	// Original says what the paper measured, and Differs what is different here.
	Original string
	Differs  []string
	// Scale is the default of --scale, with which the run takes Minutes for each server.
	Scale   float64
	Minutes string
	// steps are the benches to run.
	steps func(size) []step
	// view is what the page shows of them.
	view func(*results) []Section
}

// size is how much of a paper is run.
type size struct {
	scale float64
	// duration replaces how long each load lasts, and how long a server is left alone before
	// its memory is read. Zero value: as the paper says.
	duration time.Duration
}

// of is a count of the paper, scaled, least at least.
func (s size) of(count, least int) string { return strconv.Itoa(scaled(count, s.scale, least)) }

// flag is a flag of a bench whose value is a duration.
func (s size) flag(name string, d time.Duration) string {
	if s.duration > 0 {
		d = s.duration
	}
	return fmt.Sprintf("--%s=%s", name, d)
}

// step is a bench to run.
type step struct {
	name string // of --only
	args []string
	// names are those of the bench's flags. Zero value: those of most benches.
	names flagNames
}

// flagNames are the names of a bench's flags for servers to start, and for one that exists.
type flagNames struct{ paths, kubeconfig, context string }

// provisionFlags are those of "bench provision", whose paths are more than read paths.
func provisionFlags() flagNames { return flagNames{"paths", "kubeconfig", "context"} }

// all are the papers, in the order of their names.
func all() []*Paper { return []*Paper{paperA(), paperB(), paperC(), paperD(), paperE()} }

// paperOf returns the paper of a name, or nil.
func paperOf(name string) *Paper {
	for _, p := range all() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// scaled is a count times the scale, least at least.
func scaled(count int, scale float64, least int) int {
	return max(least, int(math.Round(float64(count)*scale)))
}
