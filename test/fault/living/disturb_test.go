package living

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/test/support/changingupstream"
	"github.com/millrace/millrace/test/support/harness"
)

// disturber disturbs an upstream while a script changes its world.
type disturber struct {
	*changingupstream.Script
	t *testing.T
	// first is the server as it was started first, and server the one that runs.
	first, server *harness.Server
	etcd          *harness.Etcd
	client        *clientv3.Client
	// older says that the server emulates an older version.
	older bool
	// programs are kube-apiservers of several minor versions, the oldest first. If there are
	// some, programs[version] is the server.
	programs []string
	version  int
}

// restart starts the upstream, which has ended.
func (d *disturber) restart() {
	if len(d.programs) > 0 {
		program := d.programs[d.version]
		d.server = d.first.RestartAs(program, d.etcd.EtcdServers(), harness.KnownGates(d.t, program, upstreamGates))
		return
	}
	var args []string
	if d.older {
		args = append(args, "--emulated-version=1.36")
	}
	d.server = d.first.RestartWith(args...)
}

// disturbances are all kinds, by their names.
func (d *disturber) disturbances() map[string]func(context.Context, *rand.Rand) error {
	return map[string]func(context.Context, *rand.Rand) error{
		"kill": d.kill, "restart": d.terminate, "freeze": d.freeze, "version": d.changeVersion, "compact": d.compact,
	}
}

// disturbBy returns what disturbs in one way of some, "" for all, as a Script's Disturb.
func (d *disturber) disturbBy(t *testing.T, given string) func(context.Context, *rand.Rand) error {
	t.Helper()
	all := d.disturbances()
	kinds := slices.Sorted(maps.Keys(all))
	if given != "" {
		kinds = strings.Split(given, ",")
	}
	for _, kind := range kinds {
		if all[kind] == nil {
			t.Fatalf("%s: there is no disturbance %q, but %v", disturbancesVariable, kind, slices.Sorted(maps.Keys(all)))
		}
	}
	return func(ctx context.Context, random *rand.Rand) error {
		return all[kinds[random.IntN(len(kinds))]](ctx, random)
	}
}

func (d *disturber) kill(ctx context.Context, _ *rand.Rand) error {
	return d.Pause(ctx, "kill the upstream", func() error {
		d.server.Kill()
		d.restart()
		return nil
	})
}

func (d *disturber) terminate(ctx context.Context, _ *rand.Rand) error {
	return d.Pause(ctx, "restart the upstream", func() error {
		d.server.Signal(syscall.SIGTERM)
		select { // the stock server waits for its clients' watches
		case <-d.server.Done():
		case <-time.After(terminateTimeout):
			d.server.Kill()
		}
		d.restart()
		return nil
	})
}

func (d *disturber) freeze(ctx context.Context, random *rand.Rand) error {
	length := time.Duration(500+random.IntN(4000)) * time.Millisecond
	return d.Pause(ctx, fmt.Sprintf("freeze the upstream for %v", length), func() error {
		d.server.Signal(syscall.SIGSTOP)
		<-time.After(length)
		d.server.Signal(syscall.SIGCONT)
		return nil
	})
}

// changeVersion restarts the upstream as the next older or newer program, or as one that
// emulates an older version.
func (d *disturber) changeVersion(ctx context.Context, random *rand.Rand) error {
	d.older = !d.older
	as := fmt.Sprintf("an older version: %v", d.older)
	if last := len(d.programs) - 1; last >= 0 {
		step := 1 - 2*random.IntN(2)
		d.version = min(max(d.version+step, 0), last)
		as = filepath.Base(d.programs[d.version])
	}
	return d.Pause(ctx, "restart the upstream as "+as, func() error {
		d.server.Kill()
		d.restart()
		return nil
	})
}

func (d *disturber) compact(ctx context.Context, _ *rand.Rand) error {
	return d.Pause(ctx, "compact etcd", func() error {
		now, err := d.client.Get(ctx, "/", clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		_, err = d.client.Compact(ctx, now.Header.Revision)
		return err
	})
}

// terminateTimeout is how long an upstream may take to end.
const terminateTimeout = 5 * time.Second

const (
	// disturbedVariable is the number of scripts of TestDisturbed.
	disturbedVariable = "MILLRACE_LIVING_DISTURBED"
	// disturbancesVariable names the kinds of disturbances, separated by commas.
	disturbancesVariable = "MILLRACE_LIVING_DISTURBANCES"
	// programsVariable names kube-apiservers of several minor versions, the oldest first,
	// separated by commas. The upstream of TestDisturbed is then one after the other.
	programsVariable = "MILLRACE_LIVING_UPSTREAMS"
)

// TestDisturbed runs scripts, one after the other, whose upstream is killed, restarted, also as
// another version, and frozen, and its etcd compacted.
func TestDisturbed(t *testing.T) {
	if os.Getenv(disturbedVariable) == "" {
		t.Skipf("takes a minute for a script: %s=10 or make living runs it", disturbedVariable)
	}
	seed, chosen := harness.Seed(t), feeds(t)
	t.Logf("repeat with %s=%d", harness.SeedVariable, seed)
	var programs []string
	if given := os.Getenv(programsVariable); given != "" {
		programs = strings.Split(given, ",")
	}
	for name, of := range feedsOf {
		if len(programs) > 0 && name != stock || !slices.ContainsFunc(of, func(feed string) bool { return chosen[feed] }) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for i := range number(t, disturbedVariable, 1) {
				t.Run(fmt.Sprint(seed+uint64(i)), func(t *testing.T) {
					w := newWorld(t, name, []uint64{seed + uint64(i)})
					// Its answers may be stale if it says so. Those of the one behind may not.
					w.apiFlags = []string{"--bounded-staleness=2s"}
					etcd := harness.StartEtcd(t)
					server := harness.Start(t, harness.ShortTempDir(t), append(w.flags(), etcd.EtcdServers())...)
					d := &disturber{t: t, first: server, server: server, etcd: etcd, client: etcd.Client(), programs: programs}
					if len(programs) > 0 {
						server.Kill()
						d.restart()
					}
					w.begin(t, d.server, d.client)
					w.replicate(t, d.server, etcd.EtcdServers(), chosen)
					s := w.script(seed + uint64(i))
					d.Script = s
					s.Disturb = d.disturbBy(t, os.Getenv(disturbancesVariable))
					w.run(t, s)
					w.floor(t, 1)
				})
			}
		})
	}
}
