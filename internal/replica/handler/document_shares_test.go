package handler_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestOneUserTurnsOverOnlyItsOwnDocuments: a user who asks for what nobody else asks for pushes out
// none of what others read.
func TestOneUserTurnsOverOnlyItsOwnDocuments(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	s := newDocumentSetup(t, bound)
	s.upstream.set(strings.Repeat("x", bound/16), `"1"`)
	all := []string{"/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3/apis/apps/v1"}
	read := func() {
		for _, path := range all {
			for _, name := range []string{"ann", "bob"} {
				s.getAs(name, path)
			}
		}
	}
	read()
	s.expect(t, "what all read", int64(len(all)), 0)
	for i := range 100 {
		s.getAs("eve", "/apis", "Accept", fmt.Sprint("a/", i))
	}
	s.expect(t, "what one reads", 100, 0)
	read()
	s.expect(t, "what all read, again", 0, 0)
	if kept := s.documents.Bytes(); kept > bound*9/16 {
		t.Errorf("%d bytes are kept, of which one user's are more than a quarter of %d", kept, bound)
	}
}

// TestOneUserLeavesChecksForOthers: a user whose questions the upstream does not answer keeps nobody
// else from asking.
func TestOneUserLeavesChecksForOthers(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	held := make(chan struct{})
	s.upstream.hold(held, "a/")
	var asking sync.WaitGroup
	passedOn := make(chan struct{}, 100)
	for i := range 100 {
		asking.Go(func() {
			s.getAs("eve", "/apis", "Accept", fmt.Sprint("a/", i))
			passedOn <- struct{}{}
		})
	}
	for range 100 - 64 {
		<-passedOn // the others may have a question each, and wait
	}
	wantAnswer(t, s.getAs("ann", "/apis"), http.StatusOK, "one")
	close(held)
	asking.Wait()
}

// TestOthersDocumentsArePassedOn: a server that the upstream proxies to may tell each user something
// else.
func TestOthersDocumentsArePassedOn(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	for path, want := range map[string]string{
		"/openapi/v3/apis/metrics.k8s.io/v1": "passed on", "/openapi/v3/apis/metrics.k8s.io": "passed on", "/openapi/v3/version": "passed on",
		"/openapi/v3/api/v1": "one", "/openapi/v3/apis/apps/v1": "one", "/openapi/v3": "one", "/openapi/v2": "one",
		"/apis/metrics.k8s.io/v1": "passed on", "/apis/metrics.k8s.io": "one",
	} {
		if got := s.get(path).Body.String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
