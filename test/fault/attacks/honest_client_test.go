package attacks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// getPeriod and writePeriod are the times between GETs of the honest client, and
	// between the writes that its watch sees.
	getPeriod, writePeriod = 20 * time.Millisecond, 100 * time.Millisecond
	// honestTimeout is when a request counts as failed.
	honestTimeout = 10 * time.Second
)

// honestClient is a client beside the attacker.
type honestClient struct {
	*server
	gets   *http.Client
	writes typed.ConfigMapInterface
	// pulse is the name of the object that the client changes.
	pulse string
}

// Experience is what the honest client has measured.
type Experience struct {
	Gets, Failed int
	// P50 and P99 are latencies of GETs. Event99 is the latency from before a write to
	// its event. Gap is the longest time without an event.
	P50, P99, Event99, Gap time.Duration
	// Err is the error of a request that failed.
	Err error `json:"-"`
}

func newHonestClient(t *testing.T, s *server) *honestClient {
	t.Helper()
	config := rest.AnonymousClientConfig(s.Config())
	config.BearerToken, config.QPS = honestToken, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	h := &honestClient{server: s, gets: newClient(t), writes: client.CoreV1().ConfigMaps(namespace), pulse: "pulse-" + strings.ToLower(s.name)}
	// A server may learn of rights only after they were given.
	err = harness.Until(honestTimeout, func() error {
		_, err := h.writes.Create(t.Context(), &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: h.pulse}}, meta.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newClient makes a client with its own connections.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (h *honestClient) request(ctx context.Context, query string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/api/v1/namespaces/"+namespace+"/configmaps"+query, nil)
	if err != nil {
		panic(err) // the URL is a constant
	}
	req.Header.Set("Authorization", "Bearer "+honestToken)
	return req
}

// run reads, writes and watches until the context ends.
func (h *honestClient) run(ctx context.Context, t *testing.T) Experience {
	var all sync.WaitGroup
	var e Experience
	var took, lags []time.Duration
	var watchErr, writeErr error
	all.Go(func() { took, e.Failed, e.Err = h.getRepeatedly(ctx) })
	all.Go(func() { lags, e.Gap, watchErr = h.watch(ctx, newClient(t)) })
	all.Go(func() { writeErr = h.write(ctx) })
	all.Wait()
	for _, err := range []error{watchErr, writeErr} {
		if err != nil {
			e.Failed++
			e.Err = err
		}
	}
	e.Gets = len(took)
	e.P50, e.P99, e.Event99 = quantile(took, 0.5), quantile(took, 0.99), quantile(lags, 0.99)
	return e
}

// getRepeatedly reads an object once in each period, and not before the previous answer
// is there.
func (h *honestClient) getRepeatedly(ctx context.Context) (took []time.Duration, failed int, failure error) {
	tick := time.NewTicker(getPeriod)
	defer tick.Stop()
	for {
		began := time.Now()
		if err := h.get(); err != nil {
			failed++
			failure = err
		}
		took = append(took, time.Since(began))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return took, failed, failure
		}
	}
}

func (h *honestClient) get() error {
	ctx, cancel := context.WithTimeout(context.Background(), honestTimeout)
	defer cancel()
	return readAll(h.gets, h.request(ctx, "/"+h.pulse))
}

// readAll sends a request, and reads an answer that must be 200 to its end.
func readAll(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// write changes the object whose events are measured.
func (h *honestClient) write(ctx context.Context) error {
	tick := time.NewTicker(writePeriod)
	defer tick.Stop()
	for {
		patch := fmt.Sprintf(`{"data":{"at":"%d"}}`, time.Now().UnixNano())
		limited, cancel := context.WithTimeout(context.Background(), honestTimeout)
		_, err := h.writes.Patch(limited, h.pulse, types.MergePatchType, []byte(patch), meta.PatchOptions{})
		cancel()
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watch follows the object that write changes.
func (h *honestClient) watch(ctx context.Context, client *http.Client) (lags []time.Duration, gap time.Duration, err error) {
	began := time.Now()
	last := began
	defer func() { gap = max(gap, time.Since(last)) }()
	resp, err := client.Do(h.request(ctx, "?watch=1&resourceVersion=0&fieldSelector=metadata.name="+h.pulse))
	if err != nil && ctx.Err() != nil {
		return nil, 0, nil // the attack was too short: gap tells
	}
	if err != nil {
		return nil, 0, fmt.Errorf("watch: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("watch: %s", resp.Status)
	}
	for events := json.NewDecoder(resp.Body); ; {
		var event struct{ Object core.ConfigMap }
		if err := events.Decode(&event); err != nil {
			if ctx.Err() != nil {
				return lags, gap, nil
			}
			return lags, gap, fmt.Errorf("watch: %w", err)
		}
		now := time.Now()
		at, _ := strconv.ParseInt(event.Object.Data["at"], 10, 64)
		if lag := time.Duration(now.UnixNano() - at); lag < now.Sub(began) { // the first one is old
			lags = append(lags, lag)
		}
		gap, last = max(gap, now.Sub(last)), now
	}
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
