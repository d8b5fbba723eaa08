package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/etcdtruth"
	"github.com/millrace/millrace/test/support/harness"
)

const (
	// roundTime and minOperations bound the operations of one history, which takes time to
	// check. Each round has objects of its own.
	roundTime     = 2 * time.Second
	minOperations = 300
	// longRounds is their number if MILLRACE_ROBUSTNESS is set. Else there is one.
	longRounds   = 15
	keysOfRound  = 5
	writeTimeout = 2 * time.Second
	// One in abandonedWrites is given up after shortTimeout, so that nobody knows whether it
	// took effect.
	abandonedWrites = 40
	shortTimeout    = 3 * time.Millisecond
	checkTimeout    = time.Minute
	// calmPause is the time between two writes of a client in a calm round.
	calmPause = 100 * time.Millisecond
)

// TestReadsAreLinearizable reads without a resource version through two replicas while
// objects are written at their upstream, and checks with a model of registers that all
// operations can be put into one order that agrees with their times. The replicas are
// paused now and then, so that their caches lag. In the long form, the upstream is too, and
// replicas and the upstream with its etcd are killed. Every second round is calm: these objects
// are seldom written and others all the time, so that most reads are passed on together. Beside
// them run readers who carry a version; see versionedReaders.
func TestReadsAreLinearizable(t *testing.T) {
	t.Parallel()
	stock := startUpstream(t)
	from := sources(stock)
	t.Run("etcd and api", func(t *testing.T) { stock = linearizable(t, stock, from["etcd"], from["api"]) })
	if !wantsRobustness() {
		return
	}
	t.Run("etcd", func(t *testing.T) { stock = linearizable(t, stock, from["etcd"], from["etcd"]) })
	t.Run("api", func(t *testing.T) { stock = linearizable(t, stock, from["api"], from["api"]) })
	own := harness.Start(t, harness.ShortTempDir(t), "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false")
	t.Run("millrace", func(t *testing.T) { linearizable(t, own, from["api"], from["api"]) })
}

// trial is two replicas with their upstream.
type trial struct {
	t         *testing.T
	upstream  kubernetes.Interface
	server    *harness.Server
	processes []*harness.Server
	replicas  []kubernetes.Interface
	// before is how many reads were answered by replicas that were killed.
	before int
	truth  *etcdtruth.Follower
	began  time.Time
}

// linearizable runs rounds against two replicas that follow an upstream by some flags. It
// returns the upstream, which may have been started anew.
func linearizable(t *testing.T, upstream *harness.Server, first, second []string) *harness.Server {
	trial := &trial{t: t, server: upstream, upstream: clientset(t, unlimited(upstream.Config())), began: time.Now()}
	for _, flags := range [][]string{first, second} {
		replica := harness.StartReplica(t, upstream, flags...)
		trial.processes = append(trial.processes, replica)
		trial.replicas = append(trial.replicas, clientset(t, replica.Config()))
	}
	trial.truth = must(etcdtruth.Follow(t.Context(), upstream.EtcdClient(), []etcdtruth.Resource{{Name: "configmaps", Prefix: "/registry/configmaps/"}}))(t)
	count := 2
	if wantsRobustness() {
		count = longRounds
	}
	for i := range count {
		trial.round(strings.ReplaceAll(strings.ToLower(filepath.Base(t.Name())), "_", "-")+fmt.Sprint("-", i), i%2 == 1)
	}
	return trial.server
}

// round is one history over keys that begin with a prefix.
type round struct {
	*trial
	keys []string
	// writePause is the time between two writes of a client.
	writePause time.Duration
	mu         struct {
		sync.Mutex
		operations []porcupine.Operation
		unanswered int
		failed     int
		sessions   []session
		// newest is the version of the newest write that was answered.
		newest int64
	}
}

// round runs all clients for a while, and checks what they saw.
func (tr *trial) round(prefix string, calm bool) {
	r := &round{trial: tr, writePause: 2 * time.Millisecond}
	for i := range keysOfRound {
		r.keys = append(r.keys, fmt.Sprintf("%s-%d", prefix, i))
	}
	before := tr.answered()
	ctx, cancel := context.WithCancel(tr.t.Context())
	defer cancel()
	var clients sync.WaitGroup
	if calm {
		r.writePause = calmPause
		clients.Go(func() { writeElsewhere(ctx, tr.t, tr.upstream, wantsRobustness()) })
	}
	next := 0
	start := func(run func(context.Context, int)) {
		id := next
		next++
		clients.Go(func() { run(ctx, id) })
	}
	for range 3 {
		start(r.write)
	}
	for _, replica := range tr.replicas {
		for range 2 {
			start(func(ctx context.Context, id int) { r.get(ctx, id, replica) })
		}
		start(func(ctx context.Context, id int) { r.list(ctx, id, replica) })
	}
	r.versionedReaders(start)
	clients.Go(func() { r.disturb(ctx) })
	pauseFor(ctx, roundTime)
	eventually(tr.t, "a history that tells something", r.tells)
	cancel()
	clients.Wait()
	r.check(tr.answered() - before)
}

// answered returns how many reads the replicas have answered themselves.
func (tr *trial) answered() int {
	n := tr.before
	for _, process := range tr.processes {
		n += answeredBy(tr.t, process)
	}
	return n
}

func answeredBy(t *testing.T, replica *harness.Server) (n int) {
	for _, verb := range []string{"GET", "LIST"} {
		n += counter(t, replica, fmt.Sprintf("millrace_read_requests_total{verb=%q}", verb))
	}
	return n
}

// tells returns an error until there are enough operations.
func (r *round) tells() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.mu.operations); n < minOperations {
		return notYet("%d operations", n)
	}
	return nil
}

// now is the time of an operation.
func (tr *trial) now() int64 { return time.Since(tr.began).Nanoseconds() }

// disturb stops one replica after the other for a moment. In the long form it also stops the
// upstream, and kills replicas and the upstream.
func (r *round) disturb(ctx context.Context) {
	for i := 0; ; i++ {
		pauseFor(ctx, 150*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		process := r.processes[i%len(r.processes)]
		switch {
		case wantsRobustness() && i%8 == 3:
			process = r.server
		case wantsRobustness() && i%8 == 6:
			r.before += answeredBy(r.t, process)
			process.Kill()
			r.processes[i%len(r.processes)] = process.Restart()
			continue
		case wantsRobustness() && i%8 == 1:
			r.server.Kill()
			r.server = r.server.Restart()
			continue
		}
		process.Signal(syscall.SIGSTOP)
		pauseFor(ctx, 150*time.Millisecond)
		process.Signal(syscall.SIGCONT)
	}
}

// record adds an operation that was called at a time and has just returned.
func (r *round) record(id int, call registerCall, reply registerReply, called int64) {
	returned := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if reply.outcome == unknown {
		returned = math.MaxInt64
		r.mu.unanswered++
	}
	r.mu.operations = append(r.mu.operations, porcupine.Operation{ClientId: id, Input: call, Call: called, Output: reply, Return: returned})
}

// write creates, changes and deletes objects at the upstream.
func (r *round) write(ctx context.Context, id int) {
	maps := r.upstream.CoreV1().ConfigMaps("default")
	for i := 0; ctx.Err() == nil; i++ {
		call := registerCall{key: r.keys[rand.IntN(len(r.keys))], verb: updates, value: fmt.Sprintf("%d-%d", id, i)}
		cm := configMap(call.key)
		cm.Data["value"] = call.value
		timeout := writeTimeout
		if rand.IntN(abandonedWrites) == 0 {
			timeout = shortTimeout
		}
		bounded, cancel := context.WithTimeout(r.t.Context(), timeout)
		called := r.now()
		var err error
		var written *corev1.ConfigMap
		switch rand.IntN(8) {
		case 0, 1:
			call.verb = creates
			written, err = maps.Create(bounded, cm, metav1.CreateOptions{})
		case 2:
			call.verb, call.value = deletes, ""
			err = maps.Delete(bounded, call.key, metav1.DeleteOptions{})
		default:
			written, err = maps.Update(bounded, cm, metav1.UpdateOptions{})
		}
		cancel()
		if net.IsConnectionRefused(err) || apierrors.IsForbidden(err) { // a server that starts
			pauseFor(ctx, calmPause)
			continue
		}
		reply := registerReply{outcome: unknown}
		switch {
		case err == nil:
			reply.outcome = done
		case apierrors.IsNotFound(err):
			reply.outcome = absent
		case apierrors.IsAlreadyExists(err):
			reply.outcome = present
		}
		r.record(id, call, reply, called)
		if err == nil && written != nil {
			r.wrote(written.ResourceVersion)
		}
		pauseFor(ctx, r.writePause)
	}
}

// wrote notes the version of a write.
func (r *round) wrote(version string) {
	revision, err := parseInt(version)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.newest = max(r.mu.newest, revision)
}

// get reads single objects at a replica.
func (r *round) get(ctx context.Context, id int, replica kubernetes.Interface) {
	for ctx.Err() == nil {
		call := registerCall{key: r.keys[rand.IntN(len(r.keys))], verb: reads}
		called := r.now()
		got, err := replica.CoreV1().ConfigMaps("default").Get(ctx, call.key, metav1.GetOptions{})
		switch {
		case err == nil:
			r.record(id, call, registerReply{done, got.Data["value"]}, called)
		case apierrors.IsNotFound(err):
			r.record(id, call, registerReply{outcome: absent}, called)
		default:
			r.readFailed(ctx, err)
		}
		pauseFor(ctx, time.Millisecond)
	}
}

// list reads all objects at a replica, which is a read of each key.
func (r *round) list(ctx context.Context, id int, replica kubernetes.Interface) {
	for ctx.Err() == nil {
		called := r.now()
		list, err := replica.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			r.readFailed(ctx, err)
			continue
		}
		values := map[string]string{}
		for i := range list.Items {
			values[list.Items[i].Name] = list.Items[i].Data["value"]
		}
		for _, key := range r.keys {
			reply := registerReply{outcome: absent}
			if value, found := values[key]; found {
				reply = registerReply{done, value}
			}
			r.record(id, registerCall{key: key, verb: reads}, reply, called)
		}
		r.mu.Lock()
		r.mu.sessions = append(r.mu.sessions, session{r.listed(list, 0)})
		r.mu.Unlock()
		pauseFor(ctx, 3*time.Millisecond)
	}
}

// readFailed counts a read without an answer. It changed nothing and saw nothing.
func (r *round) readFailed(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.failed++; r.mu.failed == 1 {
		r.t.Logf("the first read that failed: %v", err)
	}
}

// check checks the history and all sessions. answered is how many reads the replicas have
// answered themselves.
func (r *round) check(answered int) {
	t := r.t
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(registers, r.mu.operations, checkTimeout)
	if result != porcupine.Ok {
		file := filepath.Join(os.TempDir(), "millrace-"+r.keys[0]+".html")
		t.Errorf("the reads of %s are not linearizable: %s; %s shows them (%v)", r.keys[0], result, file, porcupine.VisualizePath(registers, info, file))
	}
	if err := r.truth.Wait(t.Context(), r.mu.newest); err != nil {
		t.Fatal(err)
	}
	versioned := r.checkSessions()
	t.Logf("%s: %d operations, %d without an answer; %d reads with a version in %d sessions; %d reads failed; the replicas answered %d",
		r.keys[0], len(r.mu.operations), r.mu.unanswered, versioned, len(r.mu.sessions), r.mu.failed, answered)
	if answered < minOperations/10 {
		t.Errorf("%d reads were answered by the replicas: too few to tell", answered)
	}
}
