package usage

import (
	"cmp"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/report"
)

// Config of Accounts. The zero value of each field has the meaning given there.
type Config struct {
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

// Accounts keeps accounts of GETs and LISTs: which shapes there are, who asks, and what
// it costs, over the last ten minutes. Memory is bounded: the most expensive of some
// 2,000 shapes and 1,000 clients are kept, whatever names clients make up. It is
// safe for use by many.
type Accounts struct {
	cfg   Config
	began time.Time
	seed  maphash.Seed
	// A client's lock is taken before a shape's.
	clients *table[report.Client, report.Shape]
	shapes  *table[report.Shape, report.Client]
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

// NewAccounts makes empty accounts.
func NewAccounts(cfg Config) *Accounts {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	l := &Accounts{
		cfg: cfg, began: cfg.Clock.Now(), seed: maphash.MakeSeed(),
		clients: newTable[report.Client, report.Shape](clientPlaces, report.Client.Clone),
		shapes:  newTable[report.Shape, report.Client](shapePlaces, report.Shape.Clone),
	}
	l.scale.used = cfg.ProcessCPU
	l.storms.init(&l.cfg)
	return l
}

// Request is a GET or LIST that has ended.
type Request struct {
	Client report.Client
	// Address is the client's, as in "10.0.0.1:4711".
	Address string
	Shape   report.Shape
	// Known says that the resource is one that the server stores. Others have no
	// metrics of their own.
	Known bool
	// Relist says that all of a resource was listed anew (see Relist).
	Relist bool
	// Cost is the request's. Its Requests are not read. CPU is an estimate.
	Cost report.ListCost
}

// account is a request as it is added up.
type account struct {
	cost   report.ListCost
	minute int64
	// host is a hash of the client's address without its port.
	host uint64
}

// weight orders accounts: CPU seconds, and bytes as if each took a nanosecond.
func (a *account) weight() float64 { return a.cost.CPU + 1e-9*float64(a.cost.Bytes) + 1e-6 }

// Observe adds a request. It keeps nothing that the request refers to, and shortens
// what is too long in it.
func (l *Accounts) Observe(r *Request) {
	now := l.cfg.Clock.Now()
	a := account{cost: r.Cost, minute: minuteOf(now), host: maphash.String(l.seed, host(r.Address))}
	a.cost.Requests = 1
	a.cost.CPU = l.scale.apply(now, r.Cost.CPU)
	byClient, client := l.clients.find(r.Client)
	r.Shape.Truncate()
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
	if r.Relist && r.Shape.Path != report.PathFailed {
		l.storms.sent(r.Client.UserAgent, r.Shape.Resource, r.Cost.Bytes)
	}
	if r.Shape.Path == report.PathPassedOn {
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
func (l *Accounts) Report() report.ListsReport {
	now := l.cfg.Clock.Now()
	minute := minuteOf(now)
	shapes, total := l.shapes.summaries(minute)
	clients, _ := l.clients.summaries(minute)
	r := report.ListsReport{Time: now, Total: total, Pacing: l.cfg.Pace > 0, Shapes: []report.ListShape{}, Clients: []report.ListClient{}}
	r.Storms, r.Paced = l.storms.report(now)
	spans := spansOf(now, l.began)
	costs := make(map[report.Shape]report.ListCost, len(shapes))
	for i := range shapes {
		costs[*shapes[i].key] = shapes[i].cost
	}
	for _, s := range dearest(shapes) {
		shown := report.ListShape{Shape: *s.key, ListCost: s.cost, Clients: []report.Client{}}
		for _, p := range s.partners[:min(len(s.partners), partnersKept-1)] {
			shown.Clients = append(shown.Clients, *p.key)
		}
		shown.Advice = adviseShape(&s, spans)
		r.Shapes = append(r.Shapes, shown)
	}
	for _, c := range dearest(clients) {
		shown := report.ListClient{Client: *c.key, ListCost: c.cost}
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
