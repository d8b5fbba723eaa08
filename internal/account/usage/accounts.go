package usage

import (
	"cmp"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Config configures Accounts.
type Config struct {
	// PacePercent is the percentage of a client group that may relist within a minute
	// during a storm. At least ten clients may. Zero paces no client.
	PacePercent float64
	// ProcessCPU returns the CPU time that this process has used so far. Each request is
	// charged its share of what the process used while the request ran, and never more than the
	// request's estimate. If ProcessCPU is nil, estimates are charged as they are.
	ProcessCPU func() time.Duration
	// Budgets are charged with the cost of each request. They may be nil.
	Budgets *Budgets
	// Logger receives storms, and expensive requests that were passed on. Nil means
	// slog.Default.
	Logger *slog.Logger
	// Clock is for tests. Nil means the real clock.
	Clock clock.WithTicker
}

// Accounts adds up GETs and LISTs of the last ten minutes: their shapes, the clients
// that send them, and what they cost.
//
// Two tables hold the same requests, once by client and once by shape. Each row also
// has its most expensive partners from the other table. So a report can name the
// clients of an expensive shape, and no table of all pairs is needed.
//
// Clients choose the names that are the keys, so memory must not depend on them. Both
// tables keep the most expensive keys only: about 2,000 shapes and 1,000 clients, some
// 4 MB. Observe takes about 200 ns.
//
// Lock order: a stripe of clients before a stripe of shapes. The methods may be called by
// any goroutine.
type Accounts struct {
	cfg      Config
	began    time.Time
	seed     maphash.Seed
	clients  *heavyHitters[serverreport.Client, serverreport.Shape]
	shapes   *heavyHitters[serverreport.Shape, serverreport.Client]
	series   seriesSet
	scale    cpuScale
	storms   stormDetector
	passedOn passedOnLog
}

// Stripes fill unevenly, so capacities are a quarter more than documented.
const (
	clientCapacity = 1_280
	shapeCapacity  = 2_560
)

// NewAccounts makes empty accounts.
func NewAccounts(cfg Config) *Accounts {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	a := &Accounts{
		cfg: cfg, began: cfg.Clock.Now(), seed: maphash.MakeSeed(),
		clients: newHeavyHitters[serverreport.Client, serverreport.Shape](clientCapacity, serverreport.Client.Clone),
		shapes:  newHeavyHitters[serverreport.Shape, serverreport.Client](shapeCapacity, serverreport.Shape.Clone),
	}
	a.passedOn.logger = cfg.Logger
	a.scale.init(cfg.ProcessCPU, a.began)
	a.storms.init(&a.cfg)
	return a
}

// Request is a GET or LIST that has ended.
type Request struct {
	Client serverreport.Client
	// Address is the client's address, as in "10.0.0.1:4711".
	Address string
	Shape   serverreport.Shape
	// Known reports whether the server stores the resource. Other resources share one
	// series in metrics, since their names are the client's choice.
	Known bool
	// Relist reports whether the request was a relist, as Relist.Full.
	Relist bool
	// Cost is the cost of the request. Cost.CPU is an estimate. Requests, PassedOn and Shared
	// are 0: Observe counts them by Shape.Path.
	Cost serverreport.ListCost
}

// charge is one request as the accounts add it up.
type charge struct {
	cost serverreport.ListCost
	// minute is the minute of the request, by minuteOf.
	minute int64
	// host is a hash of the client's address without its port.
	host uint64
}

// weight ranks accounts: CPU seconds, plus a nanosecond for each byte. The constant
// lets requests that cost nothing be ranked by their number.
func (c *charge) weight() float64 { return c.cost.CPU + 1e-9*float64(c.cost.Bytes) + 1e-6 }

// Begin records that a request begins at now. CPU that the process has used before is then not
// charged to the request.
func (a *Accounts) Begin(now time.Time) { a.scale.begin(now) }

// Observe adds a request. It truncates long fields of r.Shape in place, and keeps no
// reference to memory of r.
func (a *Accounts) Observe(r *Request) {
	now := a.cfg.Clock.Now()
	c := charge{cost: r.Cost, minute: minuteOf(now), host: maphash.String(a.seed, host(r.Address))}
	c.cost.Requests = 1
	switch r.Shape.Path {
	case serverreport.PathPassedOn:
		c.cost.PassedOn = 1
	case serverreport.PathShared:
		c.cost.Shared = 1
	}
	c.cost.CPU = a.scale.apply(now, r.Cost.CPU, r.Cost.Seconds)
	a.cfg.Budgets.chargeCost(r.Client.User, r.Address, &c.cost)
	clientHash, clients := a.clients.find(r.Client)
	r.Shape.Truncate()
	shapeHash, shapes := a.shapes.find(r.Shape)
	half := halfOf(c.minute)

	clients.mu.Lock()
	shapes.mu.Lock()
	client, _ := clients.addLocked(clientHash, r.Client, &c, a.clients.clone)
	shape, fresh := shapes.addLocked(shapeHash, r.Shape, &c, a.shapes.clone)
	if fresh {
		shape.series = a.series.forShape(shape.key, r.Known)
	}
	series := shape.series
	if p := client.partners.add(shapeHash, half, &c); p.key == nil {
		p.key = shape.key
	}
	if p := shape.partners.add(clientHash, half, &c); p.key == nil {
		p.key = client.key
	}
	shapes.mu.Unlock()
	clients.mu.Unlock()

	series.add(&c.cost)
	if r.Relist && r.Shape.Path != serverreport.PathFailed {
		a.storms.addBytes(r.Client.UserAgent, r.Shape.Resource, r.Cost.Bytes)
	}
	if r.Shape.Path == serverreport.PathPassedOn {
		a.passedOn.observe(now, r)
	}
}

// Forget removes the shapes, metrics and storms of deleted resources. The costs of clients do
// not change. gone is called with Shape.Resource, and with locks of the accounts held.
//
// Without Forget, thousands of deleted resources would fill the tables, and each would keep
// a page of the heap.
func (a *Accounts) Forget(gone func(resource string) bool) {
	ofGone := func(s *serverreport.Shape) bool { return gone(s.Resource) }
	for i := range a.clients.stripes {
		a.clients.stripes[i].dropPartners(ofGone)
	}
	for i := range a.shapes.stripes {
		a.shapes.stripes[i].remove(ofGone)
	}
	a.series.forget(gone)
	a.storms.forget(gone)
}

// host returns an address without its port.
func host(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		return address[:i]
	}
	return address
}

// maxReported bounds the shapes and the clients of a report.
const maxReported = 50

// Report describes the last ten minutes, except for Total and Paced, which are since the
// start. It takes some milliseconds.
func (a *Accounts) Report() serverreport.ListsReport {
	now := a.cfg.Clock.Now()
	minute := minuteOf(now)
	shapes, total := a.shapes.summaries(minute)
	clients, _ := a.clients.summaries(minute)
	r := serverreport.ListsReport{Time: now, Total: total, Pacing: a.cfg.PacePercent > 0, Shapes: []serverreport.ListShape{}, Clients: []serverreport.ListClient{}}
	r.Storms, r.Paced = a.storms.report(now)
	periods := periodsOf(now, a.began)
	costs := make(map[serverreport.Shape]serverreport.ListCost, len(shapes))
	for i := range shapes {
		costs[*shapes[i].key] = shapes[i].cost
	}
	for _, s := range mostExpensive(shapes) {
		row := serverreport.ListShape{Shape: *s.key, ListCost: s.cost, Clients: []serverreport.Client{}}
		for _, p := range s.partners[:min(len(s.partners), maxPartners-1)] {
			row.Clients = append(row.Clients, *p.key)
		}
		row.Advice = adviseShape(&s, periods)
		r.Shapes = append(r.Shapes, row)
	}
	for _, c := range mostExpensive(clients) {
		row := serverreport.ListClient{Client: *c.key, ListCost: c.cost}
		if len(c.partners) > 0 {
			row.Top = *c.partners[0].key
		}
		row.Advice = adviseClient(&c, costs, periods)
		r.Clients = append(r.Clients, row)
	}
	return r
}

// ByResource returns how the requests of the last ten minutes were answered, the
// resources with most requests first, maxReported at most.
func (a *Accounts) ByResource() []serverreport.ResourceReads {
	shapes, _ := a.shapes.summaries(minuteOf(a.cfg.Clock.Now()))
	costs := map[string]*serverreport.ListCost{}
	for i := range shapes {
		name := shapes[i].key.Resource
		if costs[name] == nil {
			costs[name] = &serverreport.ListCost{}
		}
		costs[name].Add(&shapes[i].cost)
	}
	rows := make([]serverreport.ResourceReads, 0, len(costs))
	for name, c := range costs {
		rows = append(rows, serverreport.ResourceReads{Resource: name, Requests: c.Requests, Shared: c.Shared, PassedOn: c.PassedOn, Failed: c.Failed})
	}
	slices.SortFunc(rows, func(a, b serverreport.ResourceReads) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Resource, b.Resource))
	})
	return rows[:min(len(rows), maxReported)]
}

// mostExpensive sorts all in place by CPU, in descending order. It returns the first
// maxReported.
func mostExpensive[K, P any](all []summary[K, P]) []summary[K, P] {
	slices.SortFunc(all, func(a, b summary[K, P]) int {
		return cmp.Or(cmp.Compare(b.cost.CPU, a.cost.CPU), cmp.Compare(b.cost.Requests, a.cost.Requests))
	})
	return all[:min(len(all), maxReported)]
}
