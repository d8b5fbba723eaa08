package storage_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"
)

// beyondInt64 are resource versions that no revision of etcd can have.
var beyondInt64 = []string{"9223372036854775808", "18446744073709551615"}

// TestWatchBeyondInt64 watches from revisions beyond etcd's range. Such a watch waits as
// for any other revision, and its errors name the one of the request.
func TestWatchBeyondInt64(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	for _, rv := range append(beyondInt64, "9223372036854775807") {
		opts := apistorage.ListOptions{ResourceVersion: rv, Predicate: apistorage.Everything, Recursive: true}
		begin, err := f.Begin(t.Context(), "/pods", opts)
		must(t, err)
		if begin.After != math.MaxInt64 || begin.Initial != nil {
			t.Errorf("%s: the watch begins behind %d, with initial events: %v", rv, begin.After, begin.Initial != nil)
		}
		if err := f.Ahead(t.Context(), begin.After, rv); err == nil || !strings.Contains(err.Error(), "version "+rv+" is ahead") {
			t.Errorf("%s: got error %v", rv, err)
		}
		w, err := f.Watch(t.Context(), "/pods", opts)
		must(t, err)
		f.create(t, "pod-"+rv)
		w.Stop()
		if e, open := next(t, w); open {
			t.Errorf("%s: the watch sent %v", rv, e)
		}
		initial := true
		opts.SendInitialEvents, opts.ResourceVersionMatch = &initial, metav1.ResourceVersionMatchNotOlderThan
		if _, err := f.Begin(t.Context(), "/pods", opts); !apistorage.IsTooLargeResourceVersion(err) || !strings.Contains(err.Error(), rv) {
			t.Errorf("%s: a watch-list gets error %v", rv, err)
		}
	}
}

// TestExactFutureOfOneKey lists one key at a future revision. That is etcd's to refuse, at
// once, and the error does not ask the client to retry. Numbers beyond etcd's range are
// negative for Kubernetes' store, and etcd then answers with the newest state.
func TestExactFutureOfOneKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	for _, rv := range append(beyondInt64, "999999999") {
		err := f.GetList(t.Context(), "/pods/test/a", apistorage.ListOptions{
			ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
			Predicate: apistorage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything()},
		}, &example.PodList{})
		if slices.Contains(beyondInt64, rv) {
			must(t, err)
		} else if !apistorage.IsTooLargeResourceVersion(err) || !strings.Contains(err.Error(), rv) {
			t.Errorf("%s: got error %v", rv, err)
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			t.Errorf("%s: the client is asked to retry in %d s", rv, seconds)
		}
	}
}
