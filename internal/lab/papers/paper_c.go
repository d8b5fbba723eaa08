package papers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

const (
	stepInformers = "informers"
	// secretsC is how many secrets of 1 MB there are.
	secretsC = 400
)

// informersC are the numbers of informers that begin at once.
func informersC() []int { return []int{1, 4, 16, 64, 256} }

// paperC is API streaming.
func paperC() *Paper {
	return &Paper{
		Name: "c", Title: "API streaming: watch-lists in the place of LISTs",
		Original: "400 secrets of 1 MB, and informers that begin at once. 16 informers with LISTs were enough to kill a server by its memory, which rose to 20 GB; with watch-lists it stayed at 2 GB.",
		Differs: []string{
			"Kubernetes 1.37 writes a LIST while it encodes it, which it did not when the paper was written.",
			"All informers are one process, which throws away what it gets. Every fourth reads its first 20 MB at 2 MB/s.",
			"An informer whose request is refused, or whose answer the server ends too early, begins again after a second, up to ten times. That is in its time, and in the server's CPU and memory.",
			"JSON without compression. Each number of informers has a server that was started for it, and was idle before, unless a server is measured that exists.",
		},
		Scale: 0.1, Minutes: "4 minutes",
		steps: func(s size) []step {
			var counts []string
			for _, n := range informersC() {
				counts = append(counts, strconv.Itoa(n))
			}
			return []step{{name: stepInformers, args: []string{
				"watch", "--compare", "--external-etcd", "--workloads=watchlist", "--informers=" + strings.Join(counts, ","), "--initial=list,watch-list",
				"--secrets=" + s.of(secretsC, 1), "--secret-size=1MB", s.flag("rest", 5*time.Second),
			}}}
		},
		view: viewC,
	}
}

func viewC(r *results) []Section {
	d := r.of(stepInformers)
	var sections []Section
	for _, way := range []struct {
		lists     bool
		name      string
		published string
		value     float64
	}{{true, "LISTs", "20 GB", 20e9}, {false, "watch-lists", "2 GB", 2e9}} {
		s := Section{Title: "Informers that begin with " + way.name, Note: "More is the most memory of the server while the informers read, less what it had when idle."}
		informers := func(n int, of func(*informerResult) float64) map[string]float64 {
			return d.values(func(s *serverResult) float64 {
				for i := range s.Informers {
					if one := &s.Informers[i]; one.Informers == n && one.Lists == way.lists && one.Error == "" {
						return of(one)
					}
				}
				return 0
			})
		}
		for _, n := range informersC() {
			name := display.Plural(n, "informer")
			more := Row{Name: name + ": more memory", Unit: unitSize, Values: informers(n, func(i *informerResult) float64 { return float64(max(0, i.PeakBytes-i.IdleBytes)) })}
			peak := Row{Name: name + ": most memory", Unit: unitBytes, Values: informers(n, func(i *informerResult) float64 { return float64(i.PeakBytes) })}
			if n == 16 {
				peak.Published, peak.PublishedValue = way.published+" for 400 secrets", r.comparable(way.value)
			}
			s.add(peak)
			s.add(more)
			s.add(Row{Name: name + ": CPU of the server", Unit: unitSeconds, Values: informers(n, func(i *informerResult) float64 { return i.CPUSeconds })})
			s.add(Row{Name: name + ": median time of the quick ones", Unit: unitSeconds, Values: informers(n, func(i *informerResult) float64 { return i.MedianSeconds })})
			s.Charts = append(s.Charts, memoryChart(d, n, way.lists))
		}
		s.Charts = slices.DeleteFunc(s.Charts, func(c Chart) bool { return len(c.Lines) == 0 })
		sections = append(sections, s)
	}
	return sections
}

// memoryChart is the memory of each server over time while informers begin.
func memoryChart(d *printout, n int, lists bool) Chart {
	c := Chart{Title: fmt.Sprintf("Memory over time, %s", display.Plural(n, "informer")), Unit: unitBytes}
	for i := range d.Servers {
		s := &d.Servers[i]
		for j := range s.Informers {
			one := &s.Informers[j]
			if one.Informers != n || one.Lists != lists || len(one.Memory) < 2 {
				continue
			}
			line := Series{Server: s.Name}
			for _, sample := range one.Memory {
				line.Points = append(line.Points, [2]float64{sample.Seconds, float64(sample.RSSBytes)})
			}
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}
