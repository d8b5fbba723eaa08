package attacks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// reconnectPeriod is the least time between two connections of a slot.
const reconnectPeriod = 20 * time.Millisecond

// spec is what an attacker is told.
type spec struct {
	Attack            string
	Conns             int
	Addr, Path, Token string
	Duration          time.Duration
}

// Stats are what it did.
type Stats struct{ Bytes, Requests, Answers, Conns atomic.Int64 }

// done is that in JSON.
type done struct {
	Bytes, Requests, Answers, Conns int64
	// Err is what ended a connection last.
	Err string
}

// slot has one connection at a time.
type slot struct {
	spec
	stats *Stats
	next  time.Time
}

// wait waits. It returns false when the attack is over.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// pace waits for the time of the next round: there are rate of them each second over all
// connections. It returns false when the attack is over.
func (s *slot) pace(ctx context.Context, rate int) bool {
	now := time.Now()
	if s.next = s.next.Add(time.Duration(s.Conns) * time.Second / time.Duration(rate)); s.next.Before(now) {
		s.next = now
	}
	return wait(ctx, s.next.Sub(now))
}

// runAttacker is the attacker's process. It says when it is ready, begins when it is told
// to, and says what it did.
func runAttacker(text string) int {
	var sp spec
	if err := json.Unmarshal([]byte(text), &sp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a := find(sp.Attack)
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	ctx, cancel := context.WithTimeout(context.Background(), sp.Duration)
	defer cancel()
	var stats Stats
	var last atomic.Pointer[string]
	var all sync.WaitGroup
	for i := range sp.Conns {
		all.Go(func() {
			s := &slot{spec: sp, stats: &stats}
			// They do not begin all at once.
			for more := wait(ctx, sp.Duration/10*time.Duration(i)/time.Duration(sp.Conns)); more; more = wait(ctx, reconnectPeriod) {
				if err := a.run(ctx, s); err != nil && ctx.Err() == nil {
					text := err.Error()
					last.Store(&text)
				}
			}
		})
	}
	all.Wait()
	d := done{Bytes: stats.Bytes.Load(), Requests: stats.Requests.Load(), Answers: stats.Answers.Load(), Conns: stats.Conns.Load()}
	if text := last.Load(); text != nil {
		d.Err = *text
	}
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return 1
	}
	return 0
}

// attack is a line of the table.
type attack struct {
	name        string
	conns       int
	credentials bool
}

// result is what a server made of an attack.
type result struct {
	Attacker done
	Honest   Experience
	// Peak is how much memory the server had above what it had before, Left that in the
	// end.
	Peak, Left int64
	CPU        time.Duration
}

// run attacks a server.
func run(t *testing.T, h *honest, a *attack, duration time.Duration) *result {
	t.Helper()
	begin, end := startAttacker(t, h.server, a, duration)
	before := h.usage(t)
	peak := before.rss
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for more := true; more; more = wait(ctx, 20*time.Millisecond) {
			peak = max(peak, h.usage(t).rss)
		}
	})
	begin()
	r := &result{Honest: h.live(ctx, t)}
	sampler.Wait()
	r.CPU = h.usage(t).cpu - before.cpu
	r.Attacker = end()
	r.Peak, r.Left = peak-before.rss, h.usage(t).rss-before.rss
	return r
}

// startAttacker returns when the attacker is ready. The functions have it begin, and wait
// for its end.
func startAttacker(t *testing.T, s *server, a *attack, duration time.Duration) (begin func(), end func() done) {
	t.Helper()
	if a.name == noAttack {
		return func() {}, func() done { return done{} }
	}
	sp := spec{Attack: a.name, Conns: a.conns, Addr: strings.TrimPrefix(s.URL, "https://"), Path: s.open, Duration: duration}
	if a.credentials {
		sp.Path, sp.Token = "/api/v1/namespaces/"+namespace+"/configmaps/object-0", attackerToken
	}
	text, err := json.Marshal(sp)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), attackerVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the attacker says %q: %v", line, err)
	}
	return func() { fmt.Fprintln(in) }, func() (d done) {
		if err := errors.Join(json.NewDecoder(lines).Decode(&d), cmd.Wait()); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		return d
	}
}
