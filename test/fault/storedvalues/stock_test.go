package storedvalues

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// stockCluster is a cluster with the stock server over the same etcd.
type stockCluster struct {
	*cluster
	theirs *side
	// better counts requests that the stock server fails and this one answers.
	better map[string]int
}

// stockTimeout bounds requests to the stock server, whose caches an odd value may break.
const stockTimeout = 5 * time.Second

func newStockSide(s *harness.Server) *side {
	made := newSide(s)
	made.client.Timeout = stockTimeout
	return made
}

// TestAnswersAsAtStock writes odd values while this server and the stock one run over one etcd.
// Each odd object is answered as by the stock server, or better. Where the stock server ends,
// this one goes on. When the values are gone, both answer the same LISTs.
func TestAnswersAsAtStock(t *testing.T) {
	c, etcd := newCluster(t)
	s := &stockCluster{cluster: c, better: map[string]int{}}
	args := append(flags(etcd), "--read-path=kubernetes")
	s.theirs = newStockSide(harness.Start(t, harness.ShortTempDir(t), args...))
	end := time.Now().Add(duration(t, 10*time.Second))
	all := values()
	compared := 0
	for time.Now().Before(end) {
		for _, i := range c.random.Perm(len(all)) {
			if time.Now().After(end) {
				break
			}
			s.compare(all[i])
			compared++
			select {
			case <-s.theirs.Done():
				t.Logf("the stock server has ended at: %s", all[i].name)
				s.theirs = newStockSide(s.theirs.Restart())
			default:
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(s.better)) {
		t.Logf("better %d times: %s", s.better[what], what)
	}
	t.Logf("%d of %d values, %d at a time", compared, len(all), len(c.all))
	s.recovered()
}

// compare writes a value under the odd key of each kind, and compares.
func (s *stockCluster) compare(v value) {
	s.t.Helper()
	written := s.writeAll(v)
	s.check(v.name)
	for _, k := range s.all {
		s.compareGet(v, k, k.path(k.oddNameOf()))
	}
	s.compareGet(v, s.all[0], "/apis")
	s.removeAll(written)
}

// compareGet sends a GET to both servers. An odd object has the same status at both, and the
// same bytes if it is answered.
func (s *stockCluster) compareGet(v value, k *kind, path string) {
	s.t.Helper()
	theirs, err := s.theirs.get(path)
	if err != nil {
		return // it is ending, or does not answer
	}
	ours, err := s.ours.get(path)
	switch {
	case err != nil:
		s.t.Errorf("%s: GET %s: %v", v.name, path, err)
	case ours.ok() && !theirs.ok():
		s.better[fmt.Sprintf("%s of %s: %d, stock %d", v.name, k, ours.status, theirs.status)]++
	case ours.ok() != theirs.ok(), ours.ok() && ours.body != theirs.body && path != "/apis":
		s.t.Errorf("%s: GET %s: %v, stock %v", v.name, path, ours, theirs)
	}
}

// recovered waits until both servers answer the same LISTs of all kinds.
func (s *stockCluster) recovered() {
	s.t.Helper()
	for _, k := range s.all {
		if err := harness.Until(time.Minute, func() error {
			ours, err := s.ours.get(k.list)
			if err != nil {
				return err
			}
			theirs, err := s.theirs.get(k.list)
			if err != nil {
				return err
			}
			if !ours.ok() || ours != theirs {
				at := harness.FirstDifference(ours.body, theirs.body)
				return fmt.Errorf("LIST %s: %d and stock %d differ from byte %d on: %.200q, %.200q", k.list, ours.status, theirs.status, at, ours.body[max(0, at-40):], theirs.body[max(0, at-40):])
			}
			return nil
		}); err != nil {
			s.t.Errorf("after the odd values: %v", err)
		}
	}
	a, err := s.ours.get("/openapi/v2")
	if err != nil || !a.ok() || !strings.Contains(a.body, "/apis/"+group+"/v1/") {
		s.t.Errorf("OpenAPI v2: %d, %v", a.status, err)
	}
}
