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

// reconnectPeriod is the pause between two connections of a slot.
const reconnectPeriod = 20 * time.Millisecond

// attackerSpec tells an attacker's process what to do.
type attackerSpec struct {
	Attack            string
	Conns             int
	Addr, Path, Token string
	Duration          time.Duration
}

// attackerAddress is where attackers connect from, because servers may tell clients apart by
// their addresses.
const attackerAddress = "127.0.0.2"

// Stats counts what an attacker has done.
type Stats struct{ Bytes, Requests, Answers, Conns atomic.Int64 }

// attackerReport is Stats in JSON, with the last error.
type attackerReport struct {
	Bytes, Requests, Answers, Conns int64
	// Err is the last error that ended a connection.
	Err string
}

// slot is a part of an attacker that has one connection at a time.
type slot struct {
	attackerSpec
	stats *Stats
	next  time.Time
}

// sleep returns false if the attack ends meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// pace waits for the next round. All slots together make rate rounds a second. It returns
// false when the attack is over.
func (s *slot) pace(ctx context.Context, rate int) bool {
	now := time.Now()
	if s.next = s.next.Add(time.Duration(s.Conns) * time.Second / time.Duration(rate)); s.next.Before(now) {
		s.next = now
	}
	return sleep(ctx, s.next.Sub(now))
}

// runAttacker is the attacker's process. It prints "ready", begins when it reads a line,
// and prints an attackerReport.
func runAttacker(text string) int {
	var sp attackerSpec
	if err := json.Unmarshal([]byte(text), &sp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a := findAttack(sp.Attack)
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	ctx, cancel := context.WithTimeout(context.Background(), sp.Duration)
	defer cancel()
	var stats Stats
	var last atomic.Pointer[string]
	var all sync.WaitGroup
	for i := range sp.Conns {
		all.Go(func() {
			s := &slot{attackerSpec: sp, stats: &stats}
			// Connections begin over the first tenth of the time.
			for more := sleep(ctx, sp.Duration/10*time.Duration(i)/time.Duration(sp.Conns)); more; more = sleep(ctx, reconnectPeriod) {
				if err := a.run(ctx, s); err != nil && ctx.Err() == nil {
					text := err.Error()
					last.Store(&text)
				}
			}
		})
	}
	all.Wait()
	d := attackerReport{Bytes: stats.Bytes.Load(), Requests: stats.Requests.Load(), Answers: stats.Answers.Load(), Conns: stats.Conns.Load()}
	if text := last.Load(); text != nil {
		d.Err = *text
	}
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return 1
	}
	return 0
}

// attack is an attack with a number of connections: a line of the table.
type attack struct {
	name        string
	conns       int
	credentials bool
}

// title names the attack with its parameters, as in a list of faults.
func (a *attack) title() string {
	who := "without credentials"
	if a.credentials {
		who = "with credentials"
	}
	return fmt.Sprintf("%s (%d, %s)", a.name, a.conns, who)
}

// result is how a server fared under an attack.
type result struct {
	Attacker attackerReport
	Honest   Experience
	// Peak is the server's highest memory use during the attack, and Left that at its
	// end, both above the use before.
	Peak, Left int64
	// Highest is the highest memory use. Growth is how much higher it is in an attack of
	// longerAttack times the duration that follows at once; zero if there was none.
	Highest, Growth int64
	CPU             time.Duration
}

// runAttack attacks a server while the honest client uses it.
func runAttack(t *testing.T, h *honestClient, a *attack, duration time.Duration) *result {
	t.Helper()
	begin, end := startAttacker(t, h.server, a, duration)
	before := h.usage(t)
	peak := before.rss
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for more := true; more; more = sleep(ctx, 20*time.Millisecond) {
			peak = max(peak, h.usage(t).rss)
		}
	})
	begin()
	r := &result{Honest: h.run(ctx, t)}
	sampler.Wait()
	r.CPU = h.usage(t).cpu - before.cpu
	r.Attacker = end()
	r.Peak, r.Left, r.Highest = peak-before.rss, h.usage(t).rss-before.rss, peak
	return r
}

// startAttacker starts an attacker's process and waits until it is ready. begin starts
// the attack, end waits for its end.
func startAttacker(t *testing.T, s *server, a *attack, duration time.Duration) (begin func(), end func() attackerReport) {
	t.Helper()
	if a.name == noAttack {
		return func() {}, func() attackerReport { return attackerReport{} }
	}
	sp := attackerSpec{Attack: a.name, Conns: a.conns, Addr: strings.TrimPrefix(s.URL, "https://"), Path: s.open, Duration: duration}
	if a.credentials {
		sp.Path, sp.Token = "/api/v1/namespaces/"+namespace+"/configmaps/object-0", attackerToken
	}
	if k := findAttack(a.name); k.path != "" {
		sp.Path, sp.Token = k.path, k.token
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
		t.Fatalf("the attacker printed %q in place of ready: %v", line, err)
	}
	return func() { fmt.Fprintln(in) }, func() (d attackerReport) {
		if err := errors.Join(json.NewDecoder(lines).Decode(&d), cmd.Wait()); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		return d
	}
}
