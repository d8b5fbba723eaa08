package papers

import (
	"fmt"
	"time"
)

const stepEvents = "events"

// watchersB are the workloads of "bench watch" that are run, with what they are.
func watchersB() [][2]string {
	return [][2]string{
		{"all-h2-20", "1,000 watchers of 20 config maps, 20 connections"},
		{"gzip", "the same, gzip"},
		{"all-h2-1000", "the same, 1,000 connections"},
		{"names-4000", "4,000 watchers of one name each"},
		{"nodes-1000", "1,000 watchers of the pods of one node each"},
	}
}

// paperB is watch events end to end.
func paperB() *Paper {
	return &Paper{
		Name: "b", Title: "Watch events end to end in extremely large clusters",
		Original: "A service level for watches: from the time at which an event enters the API server to the time at which it leaves it, at most 1 s for 99 of 100 events. In clusters of 100,000 pods that time went from 5 s to 0.5 s, and the bandwidth of an API server from 20 to 7.5 GB.",
		Differs: []string{
			"Times are from before a write to the receipt of its event, so that they hold for any server: they contain the write and the client.",
			"20 to 100 writes/s. The publication's load is not known.",
			"The provisioning of 1,000 pods is not in this run.",
		},
		Scale: 1, Minutes: "2 minutes",
		steps: func(s size) []step {
			args := []string{"watch", "--compare", "--external-etcd", fmt.Sprintf("--scale=%g", s.scale), s.flag("duration", 5*time.Second), s.flag("warmup", time.Second), s.flag("settle", time.Second)}
			for _, w := range watchersB() {
				args = append(args, "--workloads="+w[0])
			}
			return []step{{stepEvents, args}}
		},
		view: viewB,
	}
}

func viewB(r *results) []Section {
	d := r.of(stepEvents)
	times := Section{Title: "From a write to its events", Note: "The service level is 1 s for 99 of 100 events, of the time in the API server alone."}
	costs := Section{Title: "What an event costs", Note: "CPU of the server for an event at one watcher, with its share of the write: a thousandth where all watch the same, else the whole. Bytes as sent, before TLS."}
	if r.scale != 1 {
		times.Note += fmt.Sprintf(" The numbers of watchers are those below times %g.", r.scale)
	}
	for _, w := range watchersB() {
		row := Row{Name: w[1] + ": p99", Unit: unitMillis, Values: d.requests(w[0], func(q *requestResult) float64 { return q.Millis.P99 })}
		if w[0] == watchersB()[0][0] {
			row.Published = "5 s, then 0.5 s"
		}
		times.add(row)
		times.add(Row{Name: w[1] + ": p50", Unit: unitMillis, Values: d.requests(w[0], p50Millis)})
		costs.add(Row{Name: w[1] + ": CPU", Unit: unitMicros, Values: d.requests(w[0], func(q *requestResult) float64 {
			if q.Server == nil {
				return 0
			}
			return q.Server.EventMicros
		})})
		costs.add(Row{Name: w[1] + ": bytes", Unit: unitSize, Values: d.requests(w[0], func(q *requestResult) float64 { return q.BytesPerEvent })})
	}
	return []Section{times, costs}
}
