package differential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

const (
	// Each of watchesAtRest takes a second in which it mostly waits.
	watchesAtRest = 250
	restingAtOnce = 64
)

// watchAtRest compares n random watches that end by themselves. Most of them
// start before changes that were already written.
func (p *pair) watchAtRest(t *testing.T, gen *requestGenerator, n int) {
	p.changeSome(t, gen)
	for _, k := range gen.kinds {
		if err := p.catchUp(k.listPath("")); err != nil {
			t.Fatal(err)
		}
	}
	var requests []request
	for range scaled(t, n) {
		requests = append(requests, gen.wildWatch(gen.kinds))
	}
	p.watchesAgree(t, requests)
}

// changeSome makes changes after the last pinned revision, for watches to
// deliver. They are few enough for Kubernetes' caches to hold.
func (p *pair) changeSome(t *testing.T, gen *requestGenerator) {
	t.Helper()
	gen.pinned = []int64{p.revision()}
	f := newObjectSet(p)
	for _, resource := range []string{"pods", "configmaps", "secrets", "widgets", "events", "leases"} {
		f.change(t, named(gen.kinds, resource), gen.Rand, int(p.revision()))
		gen.pinned = append(gen.pinned, p.revision())
	}
}

// watchesAgree sends watches that end by themselves to both servers. It
// compares the answers, except for bookmarks.
func (p *pair) watchesAgree(t *testing.T, requests []request) {
	t.Helper()
	var next, wrong atomic.Int64
	var running sync.WaitGroup
	var read statuses
	for range restingAtOnce {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(requests); i = int(next.Add(1)) - 1 {
				mismatch, status := p.compareWatch(requests[i])
				read.add(status)
				if mismatch != "" && wrong.Add(1) <= shownMismatches {
					t.Errorf("%s\n  query: %s\n%s", requests[i], unescaped(requests[i].query), mismatch)
				}
			}
		})
	}
	running.Wait()
	t.Logf("%d watches by status: %v; %d mismatches", len(requests), read.count, wrong.Load())
}

// compareWatch repeats a comparison that failed, since background writes may
// have changed the answer. The repetition also allows more time, for busy
// machines.
func (p *pair) compareWatch(r request) (mismatch string, status int) {
	defer func() { p.count(mismatch) }()
	for try := range 3 {
		if try == 1 {
			r.query = strings.Replace(r.query, "timeoutSeconds=1", "timeoutSeconds=5", 1)
		}
		before := p.revision()
		ours, theirs, err := p.both(r)
		if err != nil {
			return "  " + err.Error(), 0
		}
		if mismatch = p.watchDifference(r, ours, theirs); mismatch == "" || try > 0 && p.revision() == before {
			return mismatch, theirs.status
		}
		status = theirs.status
	}
	return mismatch, status
}

func (p *pair) watchDifference(r request, ours, theirs *answer) string {
	ourFrames, ourErr := ours.frames()
	theirFrames, theirErr := theirs.frames()
	if errors.As(theirErr, new(errColumns)) {
		theirErr = nil
	}
	if ourErr != nil || theirErr != nil {
		difference := p.difference(ours, theirs)
		if difference != "" {
			difference += fmt.Sprintf("  not read as watches: %v, %v\n", ourErr, theirErr)
		}
		return difference
	}
	var out strings.Builder
	if ours.status != theirs.status {
		fmt.Fprintf(&out, "  status: ours %d, theirs %d\n", ours.status, theirs.status)
	}
	headerDifference(&out, ours, theirs)
	out.WriteString(ourFrames.differ(theirFrames, strings.Contains(r.accept, "as=Table")))
	return out.String()
}

// frames sorts the frames of a watch that has ended.
func (a *answer) frames() (frames, error) {
	raw, watch, err := a.watch()
	if err != nil {
		return frames{}, err
	}
	return sorted(watch, raw)
}

// watch decodes the answer to a watch that has ended.
func (a *answer) watch() (raw [][]byte, watch *watchcheck.Watch, err error) {
	if a.status != http.StatusOK {
		return nil, nil, fmt.Errorf("status %d", a.status)
	}
	reader, err := watchcheck.NewReader(bytes.NewReader(a.body), a.header.Get("Content-Type"))
	if err != nil {
		return nil, nil, err
	}
	watch = &watchcheck.Watch{Ended: true}
	for {
		content, f, err := reader.Next()
		if err == io.EOF {
			return raw, watch, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if f.Type == "" {
			return nil, nil, fmt.Errorf("frame %d has no type", len(raw))
		}
		raw, watch.Frames = append(raw, content), append(watch.Frames, f)
	}
}
