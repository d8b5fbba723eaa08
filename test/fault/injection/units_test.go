package injection

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// TestScheduleRepeats draws schedules: a seed always has the same one, faults keep to their
// times, and each kind comes.
func TestScheduleRepeats(t *testing.T) {
	t.Parallel()
	c := &cast{[]string{"etcd-1", "etcd-2", "etcd-3"}, []string{"server-1"}, []string{"replica-1a", "replica-2a"}}
	const long = 24 * time.Second
	seen := map[string]bool{}
	for seed := range uint64(100) {
		faults, again := schedule(seed, c, kinds(), long), schedule(seed, c, kinds(), long)
		if len(faults) < 5 || len(faults) != len(again) {
			t.Fatalf("seed %d has %d faults and then %d", seed, len(faults), len(again))
		}
		busy := map[string]time.Duration{}
		for i, f := range faults {
			if got, want := fmt.Sprint(f, f.at, f.choice), fmt.Sprint(again[i], again[i].at, again[i].choice); got != want {
				t.Fatalf("seed %d: %s and then %s", seed, got, want)
			}
			key := fmt.Sprint(f.target, f.links)
			if f.at < calm || f.at+f.length > long-recovery || f.at < busy[key] {
				t.Errorf("seed %d: %s at %v", seed, f, f.at)
			}
			busy[key] = f.at + f.length
			seen[f.name] = true
		}
	}
	for _, k := range kinds() {
		if !seen[k.name] {
			t.Errorf("no schedule has %q", k.name)
		}
	}
}

// TestNetwork sends bytes over a link in each condition.
func TestNetwork(t *testing.T) {
	t.Parallel()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	n, way := newNetwork(), link{"a", "b"}
	port := (&proxy{network: n, from: "a", places: []place{{"b", echo.Addr().(*net.TCPAddr).Port}}}).listen(t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	conn := dial()
	say := func() { fmt.Fprint(conn, "x") }
	hear := func(patience time.Duration) error {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	const short, long = 50 * time.Millisecond, 10 * time.Second
	if say(); hear(long) != nil {
		t.Fatal("no answer over a link that passes everything on")
	}
	for _, held := range []condition{{holdForth: true}, {holdBack: true}} {
		lift := n.impose(held, way)
		if say(); hear(short) == nil {
			t.Errorf("an answer over a link in condition %+v", held)
		}
		lift()
		if err := hear(long); err != nil {
			t.Errorf("no answer after condition %+v: %v", held, err)
		}
	}
	began, lift := time.Now(), n.impose(condition{delay: short}, way)
	if say(); hear(long) != nil || time.Since(began) < 2*short {
		t.Errorf("an answer over a slow link after %v", time.Since(began))
	}
	lift()
	lift = n.impose(condition{cut: true}, way)
	if err := hear(long); err == nil {
		t.Error("a connection outlives a cut")
	}
	// The reset may arrive while the dial still waits for its answer.
	if cut, err := net.Dial("tcp", address); err == nil {
		conn = cut
		t.Cleanup(func() { _ = cut.Close() })
		if hear(long) == nil {
			t.Error("a new connection over a link that is cut")
		}
	}
	lift()
	conn = dial()
	if say(); hear(long) != nil {
		t.Error("no answer after a cut")
	}
}
