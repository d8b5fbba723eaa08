package verify

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// probeName is the name of the objects that probe writes. No other client uses it.
const probeName = "probe"

// probe writes and reads an object of each resource in each way that clients will. It returns an
// error if the user's rights or an admission policy forbid one of the ways. Refusals during the
// run would look like violations, or leave nothing to check. probe also waits for the first
// write of a new definition, which kube-apiserver delays by two seconds.
func (r *run) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fixtureTimeout)
	defer cancel()
	w := &writer{run: r, id: probeName, rand: r.newRandom(-3), believed: map[objectKey]string{}}
	for i := range r.fixture.resources {
		resource := &r.fixture.resources[i]
		key := objectKey{resource.name, watchcheck.Key{Namespace: r.fixture.namespace, Name: probeName}}
		for _, do := range []verb{create, replace, patch} {
			if err := w.tryWrite(ctx, do, key); err != nil {
				return err
			}
		}
		for _, s := range r.servers {
			if err := s.tryReads(ctx, resource); err != nil {
				return err
			}
		}
		if err := w.tryWrite(ctx, remove, key); err != nil {
			return err
		}
	}
	return nil
}

// advice says what to do about a refusal.
const advice = "the user's rights and all admission policies have to allow that"

// tryWrite writes until the answer is conclusive. It returns an error if that is a refusal.
func (w *writer) tryWrite(ctx context.Context, do verb, key objectKey) error {
	return repeat(ctx, func() (bool, error) {
		w.written++
		rec := &Write{Verb: do, Key: key, Half: halves[0], Value: fmt.Sprintf("%s-%d", w.id, w.written)}
		w.send(ctx, rec, w.believed[key])
		w.believe(rec)
		w.run.record.addWrite(rec)
		err := fmt.Errorf("%s %s at %s: status %d: %s", do, key, w.run.servers[rec.Server].base, rec.Status, rec.Err)
		switch {
		case !rec.isExpected():
			return false, fmt.Errorf("%w: %s", err, advice)
		case rec.isInconclusive():
			return true, err
		}
		return false, nil
	})
}

// tryReads sends a GET, a LIST and a watch, each until the answer is conclusive. It returns an
// error if that is a refusal.
func (s *server) tryReads(ctx context.Context, r *resource) error {
	for _, read := range []struct {
		verb, path string
		query      url.Values
	}{
		{"get", r.collection + "/" + probeName, nil},
		{"list", r.collection, nil},
		{"watch", r.collection, url.Values{"watch": {"true"}}},
	} {
		err := repeat(ctx, func() (bool, error) {
			got, err := s.probeGet(ctx, read.path, read.query)
			if err == nil && (got.status == http.StatusOK || read.verb == "get" && got.status == http.StatusNotFound) {
				return false, nil
			}
			if err == nil {
				err = got.refusal()
			}
			err = fmt.Errorf("%s %s at %s: %w", read.verb, r.name, s.base, err)
			if got.status != 0 && !mayServeLater(got.status) {
				return false, fmt.Errorf("%w: %s", err, advice)
			}
			return true, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// probeGet sends a GET. It reads the body of a refusal only, since a success may be an endless
// watch.
func (s *server) probeGet(ctx context.Context, path string, query url.Values) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.open(ctx, http.MethodGet, path, query, nil, nil)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return answer{status: resp.StatusCode}, nil
	}
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer{resp.StatusCode, read}, err
}

// reachServers gets and shows the version of each server. A server that does not answer is an
// error, before anything is created.
func (r *run) reachServers(ctx context.Context) error {
	for _, s := range r.servers {
		version, err := s.version(ctx)
		if err != nil {
			return err
		}
		r.line.Print("verifying %s, %s, in namespace %s", s.base, version, r.fixture.namespace)
	}
	return nil
}
