package replica

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	crowdReaders, crowdReads = 64, 60
	// calmReads come between two writes of what the crowd reads: it is quiet most of the time.
	calmReads = 50
)

// TestCrowdReadsWhatWasWritten has many clients read a few objects without a resource version,
// which change seldom, while others change all the time. Each read sees all that was written
// before, and the upstream is asked far less often than the replica is.
func TestCrowdReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	stock, log := startAudited(t)
	writer := clientset(t, unlimited(stock.Config()))
	for i := range 20 {
		must(writer.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("quiet-"+strconv.Itoa(i)), metav1.CreateOptions{}))(t)
	}
	replica := harness.StartReplica(t, stock, "--follow=configmaps")
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { writeElsewhere(ctx, t, writer, false) })
	defer others.Wait()
	defer cancel()
	position := log.position(t)
	reader := clientset(t, unlimited(replica.Config()))
	w := &crowdWrites{client: writer}
	var readers sync.WaitGroup
	var reads atomic.Int64
	for i := range crowdReaders {
		readers.Go(func() {
			for j := range crowdReads {
				if reads.Add(1)%calmReads == 0 {
					w.write(t)
				}
				if err := w.read(t.Context(), reader, (i+j)%2 == 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	readers.Wait()
	asked := log.count(t, position, func(line string) bool {
		return strings.Contains(line, `"stage":"RequestReceived"`) && strings.Contains(line, `"resource":"configmaps"`) &&
			(strings.Contains(line, `"verb":"get"`) || strings.Contains(line, `"verb":"list"`))
	})
	t.Logf("%d reads, for which the upstream was asked %d times", reads.Load(), asked)
	if int64(asked) > reads.Load()/2 {
		t.Errorf("%d reads cost the upstream %d", reads.Load(), asked)
	}
}

func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// writeElsewhere moves the newest revision until its context ends. A write may fail if the test
// disturbs the upstream.
func writeElsewhere(ctx context.Context, t *testing.T, client kubernetes.Interface, disturbed bool) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "busy"}}
	if _, err := client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) && !disturbed {
		t.Error(err)
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		secret.StringData = map[string]string{"n": strconv.Itoa(i)}
		_, err := client.CoreV1().Secrets("default").Update(ctx, secret, metav1.UpdateOptions{})
		switch {
		case err == nil || ctx.Err() != nil:
		case disturbed:
			<-time.After(calmPause)
		default:
			t.Errorf("write elsewhere: %v", err)
			return
		}
	}
}

// crowdWrites writes one of the objects, and knows how far.
type crowdWrites struct {
	client kubernetes.Interface
	mu     sync.Mutex
	n      int
	// acknowledged is the revision of the last write that was acknowledged.
	acknowledged atomic.Int64
}

func (w *crowdWrites) write(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	cm := configMap("quiet-0")
	cm.Data["n"] = strconv.Itoa(w.n)
	written, err := w.client.CoreV1().ConfigMaps("default").Update(t.Context(), cm, metav1.UpdateOptions{})
	if err != nil {
		t.Errorf("write: %v", err)
		return
	}
	w.acknowledged.Store(revisionOf(written))
}

func revisionOf(o metav1.Object) int64 {
	revision, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return revision
}

// read reads the object, alone or in a list, and returns an error if it is older than what was
// acknowledged before.
func (w *crowdWrites) read(ctx context.Context, client kubernetes.Interface, alone bool) error {
	before := w.acknowledged.Load()
	if alone {
		got, err := client.CoreV1().ConfigMaps("default").Get(ctx, "quiet-0", metav1.GetOptions{})
		if err == nil && revisionOf(got) < before {
			err = fmt.Errorf("a read is of revision %s, and %d was written before", got.ResourceVersion, before)
		}
		return err
	}
	list, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	revision, _ := strconv.ParseInt(list.ResourceVersion, 10, 64)
	for i := range list.Items {
		if item := &list.Items[i]; item.Name == "quiet-0" && revisionOf(item) < before || revision < revisionOf(item) {
			return fmt.Errorf("a list at %d has an object at %s, and %d was written before", revision, item.ResourceVersion, before)
		}
	}
	return nil
}
