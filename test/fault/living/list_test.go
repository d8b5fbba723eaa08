package living

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/changingupstream"
)

// selectLabels selects by a label now and then.
func (r *reader) selectLabels(path *string, selection *watchcheck.Selection) {
	if r.random.IntN(4) == 0 {
		*path += "&labelSelector=part%3Done"
		selection.Labels = labels.SelectorFromSet(labels.Set{"part": "one"})
	}
}

// pageOf is a list that is read in pages.
type pageOf struct {
	accept    string
	path      string
	selection watchcheck.Selection
	// least is the least revision of the list, and exact the only one. 0 is any.
	least, exact int64
	limit        int
	// revision is that of the first page, and seen are the objects so far.
	revision int64
	seen     map[watchcheck.Key]int64
}

// page reads a page of a list, and returns the path of the next one.
func (r *reader) page(ctx context.Context, t target, path string, p *pageOf) (next string) {
	a := r.send(ctx, path, p.accept)
	if a.Status != http.StatusOK || a.Err != nil {
		if a.Status == http.StatusGone && (p.exact > 0 || p.revision > 0) {
			return ""
		}
		r.refused(t, path, a, false)
		return ""
	}
	among := r.between(t, a.Began, a.Ended)
	if r.isForeign(t, path, a, among) {
		return ""
	}
	r.judgeGeneration(t, path, a, among)
	list, err := newList(a.Body, p.accept)
	if err == nil && p.accept == asTable && t.Definition != nil {
		err = columns(a.Body, among)
	}
	if err != nil {
		r.tally.find("answer that cannot be read", "%s: %v: %.300s; %s", path, err, a.Body, generations(among))
		return ""
	}
	for _, o := range list.Objects {
		if p.accept == asMetadata {
			break // which is compared with etcd alone
		}
		r.compare(ctx, t, path, among, o)
	}
	switch {
	case p.revision == 0 && list.Revision < p.least && !isStale(a):
		r.tally.find("list that is older than it may be", "%s, %s: at %d, and not %d", path, times(a), list.Revision, p.least)
	case p.exact > 0 && list.Revision != p.exact:
		r.tally.find("exact list at another version", "%s: at %d", path, list.Revision)
	case p.revision > 0 && list.Revision != p.revision:
		r.tally.find("page at another version", "%s: at %d, and the first one at %d", path, list.Revision, p.revision)
	}
	if p.revision == 0 {
		p.revision, p.seen = list.Revision, map[watchcheck.Key]int64{}
		r.revisions[t.Resource] = max(r.revisions[t.Resource], list.Revision)
	}
	for _, o := range list.Objects {
		p.seen[watchcheck.Key{Namespace: o.Namespace, Name: o.Name}] = o.Revision
	}
	if list.Continue != "" {
		return fmt.Sprintf("%s?includeObject=Object&limit=%d&continue=%s", t.path(), p.limit, url.QueryEscape(list.Continue)) + p.labels()
	}
	r.judgeState(ctx, t, p, a)
	return ""
}

func (p *pageOf) labels() string {
	if p.selection.Labels == nil {
		return ""
	}
	return "&labelSelector=" + url.QueryEscape(p.selection.Labels.String())
}

// judgeState compares a whole list with etcd's state at its revision.
func (r *reader) judgeState(ctx context.Context, t target, p *pageOf, a *changingupstream.Answer) {
	truth, err := r.script.Truth(context.WithoutCancel(ctx), t.Resource, p.revision)
	if err != nil {
		r.tally.find("list at a version that etcd does not have", "%s: at %d: %v", p.path, p.revision, err)
		return
	}
	want := map[watchcheck.Key]int64{}
	for key, state := range truth.StateAt(&p.selection, p.revision) {
		want[key] = state.Revision
	}
	if p.revision >= truth.From && !maps.Equal(want, p.seen) {
		r.tally.find("list that is no state", "%s, %s: at %d: want %v, got %v", p.path, times(a), p.revision, want, p.seen)
	}
}
