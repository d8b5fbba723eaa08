package analyze

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/useragent"
)

// row is a cell with its cost, and what else its client does with the resource.
type row struct {
	ShapeCost
	cell *cell
	use  *resourceUse
	// sureForm says that the form is known and not only likely.
	sureForm bool
	// seconds is the period of the log.
	period float64
}

// compareCells orders cells by all that they differ in.
func compareCells(a, b cellKey) int {
	x, y := &a.SentShape, &b.SentShape
	return cmp.Or(
		cmp.Compare(a.client.User, b.client.User), cmp.Compare(a.client.UserAgent, b.client.UserAgent),
		cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Verb, y.Verb), cmp.Compare(x.Scope, y.Scope),
		cmp.Compare(x.Selectors, y.Selectors), cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Limit, y.Limit),
		cmp.Compare(strconv.FormatBool(x.Bookmarks), strconv.FormatBool(y.Bookmarks)), cmp.Compare(strconv.FormatBool(x.InitialEvents), strconv.FormatBool(y.InitialEvents)),
	)
}

// resourceUse is what one client does with one resource.
type resourceUse struct {
	watches, gone uint64
	ended         uint64
	// seconds is how long those lasted that ended.
	seconds float64
	// lists are those that read a collection from its beginning.
	lists []*row
}

// ledger has all rows of an analysis, the most expensive first.
type ledger struct {
	rows    []*row
	clients map[serverreport.Client]*clientUse
	total   Cost
	period  float64
	model   *model
}

const leases = "leases.coordination.k8s.io"

// clientUse is what a client does in all.
type clientUse struct {
	fleet int
	cost  Cost
	uses  map[string]*resourceUse
	// namespace is the only one of its requests in namespaces. several says that there are
	// more.
	namespace string
	several   bool
	starts    uint64
}

func newLedger(c *collector, m *model) *ledger {
	l := &ledger{clients: map[serverreport.Client]*clientUse{}, model: m, period: m.cluster.period}
	// Sums of floating-point numbers depend on the order of their parts.
	for _, key := range slices.SortedFunc(maps.Keys(c.cells.rows), compareCells) {
		v := c.cells.rows[key]
		who := l.client(key.client, c)
		who.note(&key, v)
		r := l.newRow(key, v)
		r.use = who.use(key.Resource)
		r.use.note(&key, v)
		if r.Verb == "list" && r.anew() {
			r.use.lists = append(r.use.lists, r)
		}
		who.cost.add(&r.Cost)
		l.total.add(&r.Cost)
		l.rows = append(l.rows, r)
	}
	slices.SortStableFunc(l.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Example(), b.Example()), cmp.Compare(a.Name(), b.Name()))
	})
	return l
}

func (l *ledger) client(who serverreport.Client, c *collector) *clientUse {
	u := l.clients[who]
	if u == nil {
		u = &clientUse{uses: map[string]*resourceUse{}, fleet: 1}
		if counts := c.clients.rows[who]; counts != nil {
			u.fleet, u.starts = max(1, counts.instances.Count()), counts.starts
		}
		l.clients[who] = u
	}
	return u
}

func (u *clientUse) use(resource string) *resourceUse {
	if u.uses[resource] == nil {
		u.uses[resource] = &resourceUse{}
	}
	return u.uses[resource]
}

// note adds the namespace of a cell. Leases are left out: they say where a program's
// replicas elect one, or a node reports itself.
func (u *clientUse) note(key *cellKey, v *cell) {
	if key.Scope == serverreport.ScopeCluster || v.namespace == "" || key.Resource == leases {
		return
	}
	if u.namespace == "" {
		u.namespace = v.namespace
	}
	u.several = u.several || v.namespaces || v.namespace != u.namespace
}

func (u *resourceUse) note(key *cellKey, v *cell) {
	if key.Verb == "watch" {
		u.watches += max(v.started, v.ended)
		u.ended += v.ended
		u.gone += v.gone
		u.seconds += v.watchedSeconds()
	}
}

// readers is how many instances read the collection of a row: its fleet, or more if more watches
// of the resource were open at once. Instances behind one address are told apart by nothing else.
func (u *resourceUse) readers(r *row) float64 {
	open := u.watches - min(u.watches, u.ended)
	return max(float64(r.Fleet), float64(open), u.seconds/r.period)
}

func (l *ledger) newRow(key cellKey, v *cell) *row {
	m, s := l.model, key.SentShape
	r := &row{cell: v, period: l.period}
	s.Encoding, r.sureForm = useragent.Encoding(key.client.UserAgent, s.Verb, s.Resource, m.options.Forms)
	s.Source = m.source(&s.Shape)
	r.ShapeCost = ShapeCost{
		Client: key.client, SentShape: s, Fleet: max(1, v.instances.Count()),
		Cost: m.cost(&s.Shape, s.anew(), v), Gone: v.gone, Throttled: v.throttled, Failed: v.failed,
	}
	if v.ended > 0 {
		r.MeanSeconds = v.watchedSeconds() / float64(v.ended)
	}
	return r
}

// each is how many requests one instance sent.
func (r *row) each() float64 { return float64(r.Requests) / float64(r.Fleet) }

func (r *row) watched() bool { return r.use.watches > 0 }
