package slo

import (
	"cmp"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// ListsConfig of Lists. The zero value of each field has the meaning given there.
type ListsConfig struct {
	// Pace is how many percent of a fleet may relist within a minute during a storm.
	// Zero holds nobody back.
	Pace float64
	// ProcessCPU is what this process has used so far. Estimates are kept below it.
	// Nil leaves them as they are.
	ProcessCPU func() time.Duration
	// Logger receives storms, and large lists that were passed on. Nil means
	// slog.Default.
	Logger *slog.Logger
	// Clock is for tests. Nil means the real one.
	Clock clock.WithTicker
}

// Lists keeps accounts of GETs and LISTs: which shapes there are, who asks, and what
// it costs, over the last ten minutes. Memory is bounded: the most expensive of some
// 2,000 shapes and 1,000 clients are kept, whatever names clients make up. It is
// safe for use by many.
type Lists struct {
	cfg   ListsConfig
	began time.Time
	seed  maphash.Seed
	// A client's lock is taken before a shape's.
	clients *table[Client, Shape]
	shapes  *table[Shape, Client]
	series  seriesSet
	scale   scale
	storms  storms
	shown   atomic.Int64
}

// The places are a quarter more than are promised, since stripes fill unevenly.
const (
	clientPlaces = 1_280
	shapePlaces  = 2_560
)

// NewLists makes empty accounts.
func NewLists(cfg ListsConfig) *Lists {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	l := &Lists{
		cfg: cfg, began: cfg.Clock.Now(), seed: maphash.MakeSeed(),
		clients: newTable[Client, Shape](clientPlaces, Client.clone),
		shapes:  newTable[Shape, Client](shapePlaces, Shape.clone),
	}
	l.scale.used = cfg.ProcessCPU
	l.storms.init(&l.cfg)
	return l
}

// ListRequest is a GET or LIST that has ended.
type ListRequest struct {
	Client Client
	// Address is the client's, as in "10.0.0.1:4711".
	Address string
	Shape   Shape
	// Known says that the resource is one that the server stores. Others have no
	// metrics of their own.
	Known bool
	// Relist says that all of a resource was listed anew (see Relist).
	Relist bool
	// Cost is the request's. Its Requests are not read. CPU is an estimate.
	Cost ListCost
}

// account is a request as it is added up.
type account struct {
	cost   ListCost
	minute int64
	// host is a hash of the client's address without its port.
	host uint64
}

// weight orders accounts: CPU seconds, and bytes as if each took a nanosecond.
func (a *account) weight() float64 { return a.cost.CPU + 1e-9*float64(a.cost.Bytes) + 1e-6 }

// Observe adds a request. It keeps nothing that the request refers to, and shortens
// what is too long in it.
func (l *Lists) Observe(r *ListRequest) {
	now := l.cfg.Clock.Now()
	a := account{cost: r.Cost, minute: minuteOf(now), host: maphash.String(l.seed, host(r.Address))}
	a.cost.Requests = 1
	a.cost.CPU = l.scale.apply(now, r.Cost.CPU)
	byClient, client := l.clients.find(r.Client)
	r.Shape.bound()
	byShape, shape := l.shapes.find(r.Shape)
	half := halfOf(a.minute)

	client.mu.Lock()
	shape.mu.Lock()
	c, _ := client.addLocked(byClient, r.Client, &a, l.clients.clone)
	s, fresh := shape.addLocked(byShape, r.Shape, &a, l.shapes.clone)
	if fresh {
		s.series = l.series.of(s.key, r.Known)
	}
	sum := s.series
	if p := c.partners.add(byShape, half, &a); p.key == nil {
		p.key = s.key
	}
	if p := s.partners.add(byClient, half, &a); p.key == nil {
		p.key = c.key
	}
	shape.mu.Unlock()
	client.mu.Unlock()

	sum.add(&a.cost)
	if r.Relist && r.Shape.Path != PathFailed {
		l.storms.sent(r.Client.UserAgent, r.Shape.Resource, r.Cost.Bytes)
	}
	if r.Shape.Path == PathPassedOn {
		l.tellPassedOn(now, r)
	}
}

// host is an address without its port.
func host(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		return address[:i]
	}
	return address
}

// shown is how many shapes and clients a report has.
const shown = 50

// Report tells of the last ten minutes. It takes some milliseconds.
func (l *Lists) Report() ListsReport {
	now := l.cfg.Clock.Now()
	minute := minuteOf(now)
	shapes, total := l.shapes.summaries(minute)
	clients, _ := l.clients.summaries(minute)
	r := ListsReport{Time: now, Total: total, Pacing: l.cfg.Pace > 0, Shapes: []ListShape{}, Clients: []ListClient{}}
	r.Storms, r.Paced = l.storms.report(now)
	spans := spansOf(now, l.began)
	costs := make(map[Shape]ListCost, len(shapes))
	for i := range shapes {
		costs[*shapes[i].key] = shapes[i].cost
	}
	for _, s := range dearest(shapes) {
		shown := ListShape{Shape: *s.key, ListCost: s.cost, Clients: []Client{}}
		for _, p := range s.partners[:min(len(s.partners), partnersKept-1)] {
			shown.Clients = append(shown.Clients, *p.key)
		}
		shown.Advice = adviseShape(&s, spans)
		r.Shapes = append(r.Shapes, shown)
	}
	for _, c := range dearest(clients) {
		shown := ListClient{Client: *c.key, ListCost: c.cost}
		if len(c.partners) > 0 {
			shown.Top = *c.partners[0].key
		}
		shown.Advice = adviseClient(&c, costs, spans)
		r.Clients = append(r.Clients, shown)
	}
	return r
}

// dearest are those with most CPU, the most first.
func dearest[K, O any](all []summary[K, O]) []summary[K, O] {
	slices.SortFunc(all, func(a, b summary[K, O]) int {
		return cmp.Or(cmp.Compare(b.cost.CPU, a.cost.CPU), cmp.Compare(b.cost.Requests, a.cost.Requests))
	})
	return all[:min(len(all), shown)]
}
