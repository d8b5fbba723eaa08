package slo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

const (
	warning  = "warning"
	critical = "critical"
	// maxNamedClients bounds the findings of slowClients. stuck adds findings until about
	// twice as many clients are named.
	maxNamedClients = 5
)

// findings finds what is wrong now. It writes Causes and Met of the report, whose other
// fields are complete.
type findings struct {
	set       *Watches
	now       time.Time
	report    *serverreport.SLOReport
	resources []*resourceResult
	// clients are all clients with spans in the last minute, the slowest first.
	clients []serverreport.ClientSLO
}

// find runs all checks, and sorts the findings by severity.
func (f *findings) find() {
	f.report.Met = true
	f.report.Causes = []serverreport.Finding{}
	f.etcd()
	f.cpu()
	for _, r := range f.resources {
		if !r.row.Met {
			f.report.Met = false
			f.missed(r)
		}
	}
	f.slowClients()
	f.stuck()
	f.probe()
	rank := map[string]int{critical: 0, warning: 1}
	slices.SortStableFunc(f.report.Causes, func(a, b serverreport.Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
}

func (f *findings) add(found serverreport.Finding) { f.report.Causes = append(f.report.Causes, found) }

// etcd finds feeds that are late now, or were late in the last minute.
func (f *findings) etcd() {
	const advice = "Look at etcd: its disk (fsync times), leader elections, and the network to it. Watches are complete when it answers; nothing is lost."
	if feed, late, err := f.set.feeds.mostLate(f.now); feed != nil {
		f.report.Met = false
		message := fmt.Sprintf("etcd is late: its watch has not answered for %s (%s).", seconds(late.Seconds()), strings.Join(feed.endpoints, ", "))
		if err != nil {
			message += " " + err.Error() + "."
		}
		f.add(serverreport.Finding{Cause: serverreport.Cause(serverreport.StageEtcd), Severity: critical, Message: message, Advice: advice})
		return
	}
	if p99 := f.report.All.Stages[0].P99; p99 >= lateAfter.Seconds() {
		f.report.Met = false
		f.add(serverreport.Finding{Cause: serverreport.Cause(serverreport.StageEtcd), Severity: warning, Advice: advice,
			Message: fmt.Sprintf("etcd was late in the last minute: its watch took %s to answer (p99).", seconds(p99))})
	}
}

// starvedAfter is how long, in seconds, goroutines may wait for a processor (p99).
const starvedAfter = 0.1

// cpu finds that the process lacks processors.
func (f *findings) cpu() {
	p := &f.report.Process
	if processorWait(p) < starvedAfter {
		return
	}
	f.add(serverreport.Finding{Cause: serverreport.CauseCPU, Severity: warning,
		Message: fmt.Sprintf("This server is short of processors: it was ready to run and waited %s (p99), using %.1f of %d.", seconds(processorWait(p)), p.CPU, p.Processors),
		Advice:  "Give it more CPU, raise its limit (throttling shows in the cgroup's cpu.stat), or move other load away."})
}

// missed explains why a resource misses its objective.
func (f *findings) missed(r *resourceResult) {
	t := &r.row
	found := serverreport.Finding{Cause: t.Cause, Severity: critical, Resource: t.Resource}
	message := fmt.Sprintf("Events of %s took %s (p99) of the %s that they may; %d of %d were late.", t.Resource, seconds(t.Spans.P99), seconds(t.ObjectiveSeconds), t.Late, t.Spans.Count)
	switch t.Cause {
	case serverreport.Cause(serverreport.StageDecode):
		message += " The server is slow: most of it was the way into the cache."
		found.Advice = "Writes come faster than they are decoded: look at the CPU, at how many objects are written a second, and at what writes them."
	case serverreport.Cause(serverreport.StageDispatch):
		message += " The server is slow: most of it was waiting for the writers of connections."
		found.Advice = "Spread clients over more connections or servers, and look for watches without a selector that could have one."
	case serverreport.Cause(serverreport.StageEncode):
		message += " The server is slow: most of it was encoding and compressing."
		found.Advice = "Let clients ask for protobuf where they can, and for one encoding; look at the size of the objects."
	case serverreport.Cause(serverreport.StageClient):
		found.Severity = warning
		message += " The server is in time: clients did not read, their HTTP/2 windows were shut."
		found.Advice = "Look at these clients: a handler that blocks, too little CPU, or too much that they watch."
	case serverreport.Cause(serverreport.StageConnection):
		message += " The network is full, or the other side does not read: writing to connections took most of it."
		found.Advice = "Look at the bandwidth of this server and at the machines of slow clients; compression (--watch-compression) makes events smaller."
	case serverreport.CauseCPU:
		message += " This server was ready to run and did not get a processor."
		found.Advice = "Give it more CPU, or raise its limit."
	case serverreport.CauseSize:
		message += fmt.Sprintf(" The late ones are large: %d KiB on average.", r.lateBytes/max(1, r.late)>>10)
		found.Advice = "Make these objects smaller or write them less often; watches of metadata alone, and selectors, keep them from who does not need them."
	}
	if t.Cause != serverreport.Cause(serverreport.StageClient) && r.metWithoutClients() {
		found.Severity = warning
	}
	if r.metWithoutClients() {
		message += " Without the events that waited for slow clients, the objective was met."
	}
	found.Message = message
	f.add(found)
}

// slowClients finds clients of which too many events were late, mostly because they waited for
// the client or its connection.
func (f *findings) slowClients() {
	named := 0
	for i := range f.clients {
		c := &f.clients[i]
		if c.Cause != serverreport.Cause(serverreport.StageClient) && c.Cause != serverreport.Cause(serverreport.StageConnection) || float64(c.Late) <= errorBudget*float64(c.Spans.Count) {
			continue
		}
		if named++; named > maxNamedClients {
			return
		}
		found := serverreport.Finding{Cause: c.Cause, Severity: warning, Client: c.Name()}
		found.Message = fmt.Sprintf("This client is slow: %s does not read its events in time; %d of %d were late, by its own window.", c.Name(), c.Late, c.Spans.Count)
		found.Advice = "Others are not held up by it. Look at the client: a handler that blocks, too little CPU, or too much that it watches."
		if c.Cause == serverreport.Cause(serverreport.StageConnection) {
			found.Message = fmt.Sprintf("The connection of %s takes no more: %d of %d events were late.", c.Name(), c.Late, c.Spans.Count)
			found.Advice = "Look at the network between, and whether the client's process runs. It holds up only the watches on the same connection."
		}
		f.add(found)
	}
}

// stuck finds watches that have waited for longer than their objective. Events that are not
// delivered yet have no span, so the other checks do not see them.
func (f *findings) stuck() {
	named := map[string]bool{}
	for _, found := range f.report.Causes {
		named[found.Client] = found.Client != ""
	}
	for _, w := range watchesBehind(f.set.watches(), f.now) {
		if len(named) > 2*maxNamedClients {
			return
		}
		if w.BehindSeconds <= f.set.cfg.Objectives.forResource(w.Resource).Seconds() {
			continue
		}
		found := serverreport.Finding{Severity: warning, Resource: w.Resource, Client: w.Client.Name()}
		if named[found.Client] {
			continue
		}
		message := fmt.Sprintf("A watch of %s by %s has waited for %s, and is %d events behind", w.Resource, found.Client, seconds(w.BehindSeconds), w.BehindEvents)
		switch w.State {
		case stateClient:
			found.Cause = serverreport.Cause(serverreport.StageClient)
			found.Message = message + ": this client does not read."
			found.Advice = "It is told to list again when the log does not go back so far (--history-window). Look at the client."
		case stateConnection:
			found.Cause = serverreport.Cause(serverreport.StageConnection)
			found.Message = message + ": its connection takes no more."
			found.Advice = "Look at the network between, and whether the client's process runs."
		case stateInitial:
			continue
		default:
			f.report.Met = false
			found.Cause, found.Severity = serverreport.Cause(serverreport.StageDispatch), critical
			found.Message = message + ": the server does not come to it."
			found.Advice = "Look at the CPU of this server, and at what else its connection carries."
		}
		named[found.Client] = true
		f.add(found)
	}
}

// probeTimeoutSeconds is how long the probe's event may take.
const probeTimeoutSeconds = 10

// probe finds a probe that does not work, or whose event is missing.
func (f *findings) probe() {
	p := f.report.Probe
	switch {
	case p == nil:
	case p.Error != "":
		f.add(serverreport.Finding{Cause: serverreport.CauseProbe, Severity: warning, Message: "The probe does not work: " + p.Error + ".", Advice: "See whether writes work, and whether the server answers itself."})
	case p.PendingSeconds > probeTimeoutSeconds:
		f.report.Met = false
		f.add(serverreport.Finding{Cause: serverreport.CauseProbe, Severity: critical,
			Message: fmt.Sprintf("What the probe wrote %s ago has not come back to it.", seconds(p.PendingSeconds)),
			Advice:  "See the other causes; with none, this server's watches are stuck: take it out of service and keep its logs."})
	}
}

// seconds formats a time for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
