package analyze

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/useragent"
)

// ledger has all rows of an analysis, the most expensive first, and derives the findings from them.
type ledger struct {
	rows    []*row
	clients map[serverreport.Client]*clientUse
	total   Cost
	period  float64 // of the log, in seconds
	model   *model
}

const leases = "leases.coordination.k8s.io"

// newLedger returns the ledger of the collector's cells.
func newLedger(c *collector, m *model) *ledger {
	l := &ledger{clients: map[serverreport.Client]*clientUse{}, model: m, period: m.cluster.period}
	// Sums of floating-point numbers depend on the order of their parts.
	for _, key := range slices.SortedFunc(maps.Keys(c.cells.rows), compareCells) {
		v := c.cells.rows[key]
		use := l.clientUse(key.client, c)
		use.addCell(&key, v)
		r := l.newRow(key, v)
		r.use = use.resourceUse(key.Resource)
		r.use.addCell(&key, v)
		if r.Verb == "list" && r.isInitial() {
			r.use.initialLists = append(r.use.initialLists, r)
		}
		use.cost.add(&r.Cost)
		l.total.add(&r.Cost)
		l.rows = append(l.rows, r)
	}
	slices.SortStableFunc(l.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Example(), b.Example()), cmp.Compare(a.Name(), b.Name()))
	})
	return l
}

// clientUse returns the sums of a client. It adds a new client to the ledger.
func (l *ledger) clientUse(client serverreport.Client, c *collector) *clientUse {
	u := l.clients[client]
	if u == nil {
		u = &clientUse{uses: map[string]*resourceUse{}, fleet: 1}
		if counts := c.clients.rows[client]; counts != nil {
			u.fleet, u.starts = max(1, counts.instances.Count()), counts.starts
		}
		l.clients[client] = u
	}
	return u
}

// newRow returns the row of a cell, with its cost. The caller must set use.
func (l *ledger) newRow(key cellKey, v *cell) *row {
	m, s := l.model, key.SentShape
	r := &row{cell: v, period: l.period}
	s.Encoding, r.knownEncoding = useragent.Encoding(key.client.UserAgent, s.Verb, s.Resource, m.options.Encodings)
	s.Source = m.source(&s.Shape)
	r.ShapeCost = ShapeCost{
		Client: key.client, SentShape: s, Fleet: max(1, v.instances.Count()),
		Cost: m.cost(&s.Shape, s.isInitial(), v), Gone: v.gone, Throttled: v.throttled, Failed: v.failed,
	}
	if v.ended > 0 {
		r.MeanSeconds = v.watchedSeconds() / float64(v.ended)
	}
	return r
}

// clientUse sums what a client does in all.
type clientUse struct {
	fleet int
	cost  Cost
	uses  map[string]*resourceUse // by resource
	// namespace is the namespace of the client's first request in a namespace, or "".
	// severalNamespaces says that some requests have another namespace.
	namespace         string
	severalNamespaces bool
	starts            uint64 // of its instances
}

// resourceUse returns the sums of a resource. It adds a new resource.
func (u *clientUse) resourceUse(resource string) *resourceUse {
	if u.uses[resource] == nil {
		u.uses[resource] = &resourceUse{}
	}
	return u.uses[resource]
}

// addCell notes the namespace of a cell. It ignores Leases: a program's instances elect a leader in
// their namespace, and a node reports itself there, but the program may work elsewhere.
func (u *clientUse) addCell(key *cellKey, v *cell) {
	if key.Scope == serverreport.ScopeCluster || v.namespace == "" || key.Resource == leases {
		return
	}
	if u.namespace == "" {
		u.namespace = v.namespace
	}
	u.severalNamespaces = u.severalNamespaces || v.severalNamespaces || v.namespace != u.namespace
}

// compareCells orders the keys of cells.
func compareCells(a, b cellKey) int {
	x, y := &a.SentShape, &b.SentShape
	return cmp.Or(
		cmp.Compare(a.client.User, b.client.User), cmp.Compare(a.client.UserAgent, b.client.UserAgent),
		cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Verb, y.Verb), cmp.Compare(x.Scope, y.Scope),
		cmp.Compare(x.Selectors, y.Selectors), cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Limit, y.Limit),
		cmp.Compare(strconv.FormatBool(x.Bookmarks), strconv.FormatBool(y.Bookmarks)),
		cmp.Compare(strconv.FormatBool(x.InitialEvents), strconv.FormatBool(y.InitialEvents)),
	)
}
