package list

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

// sectionBench returns a bench whose sections can run against an API in this process.
func sectionBench() *bench {
	o := &options{resourceVersions: []string{"0"}, rest: time.Millisecond, rssLists: 3, stall: 50 * time.Millisecond}
	return &bench{opts: o, progress: testbed.NewProgress(io.Discard), report: &report{}}
}

func TestRSSSendsEveryEncoding(t *testing.T) {
	api := &benchtest.API{Pods: 600}
	var s serverReport
	if err := sectionBench().runRSS(t.Context(), newTestLoader(t, api, true), &s); err != nil {
		t.Fatal(err)
	}
	if s.RSS.Error != "" || s.RSS.IdleBytes <= 0 || s.RSS.PeakBytes < s.RSS.IdleBytes || s.RSS.StartPeakBytes <= 0 || s.RSS.AfterBytes <= 0 {
		t.Errorf("got %+v", s.RSS)
	}
	if lists := api.CountURIs("/api/v1/pods?resourceVersion=0"); lists != 4*3 {
		t.Errorf("%d LISTs of all pods, want 3 of each of 4 encodings", lists)
	}
}

func TestRSSReportsFailure(t *testing.T) {
	b := sectionBench()
	b.report.Data = &testbed.FillConfig{Pods: 700}
	var s serverReport
	if err := b.runRSS(t.Context(), newTestLoader(t, &benchtest.API{Pods: 600}, true), &s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.RSS.Error, "600 items, expected at least 700") {
		t.Errorf("got %+v", s.RSS)
	}
}

// TestSlowReadersCounts measures a server that answers one LIST with a 429 and aborts another.
func TestSlowReadersCounts(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		api := &benchtest.API{Secrets: 3000}
		var lists atomic.Int64
		faulty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api/v1/secrets") {
				switch lists.Add(1) {
				case 3:
					http.Error(w, "too many", http.StatusTooManyRequests)
					return
				case 4:
					io.WriteString(w, `{"items":[`)
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
			}
			api.ServeHTTP(w, r)
		})
		b := sectionBench()
		b.opts.plan.Concurrency = 10
		l := newTestLoader(t, faulty, http2)
		var s serverReport
		if err := b.runSlowReaders(t.Context(), l, &s); err != nil {
			t.Fatal(err)
		}
		got := s.SlowReaders
		if got.Error != "" || got.Clients != 10 || got.BodyBytes < slowReadersBytes || got.PeakBytes < got.BeforeBytes {
			t.Errorf("got %+v", got)
		}
		if complete := got.Fast.Complete + got.Slow.Complete; complete != 8 || got.Fast.Refused+got.Slow.Refused != 1 || got.Fast.Failed+got.Slow.Failed != 1 || got.FirstFailure == "" {
			t.Errorf("got %+v", got)
		}
		if ended := got.Slow.Complete + got.Slow.Refused + got.Slow.Failed; ended != 5 {
			t.Errorf("%d of 10 readers were slow", ended)
		}
		if got.Slow.Seconds < b.opts.stall.Seconds()/2 {
			t.Errorf("slow readers took %g s", got.Slow.Seconds)
		}
	}
}
