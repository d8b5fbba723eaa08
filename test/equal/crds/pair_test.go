package crds

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/test/support/harness"
)

// side is one of the two servers, over an etcd of its own.
type side struct {
	*harness.Server
	client *http.Client
	etcd   *clientv3.Client
}

// pair has the server under test and the stock server.
type pair struct {
	// sides are ours and theirs, in this order.
	sides   [2]*side
	webhook *conversionWebhook
	// seed is the seed of all random choices.
	seed uint64
	// requests, definitions and objects count comparisons.
	requests, definitions, objects atomic.Int64
}

var sideNames = [2]string{"ours", "theirs"}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{webhook: startConversionWebhook(t), seed: harness.Seed(t)}
	for i, path := range []string{"millrace", "kubernetes"} {
		server := harness.Launch(t, harness.ShortTempDir(t), "--read-path="+path,
			// With these features the server writes leases every few seconds.
			"--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false")
		p.sides[i] = &side{Server: server}
	}
	for _, s := range p.sides {
		s.WaitReady()
		s.client, s.etcd = s.HTTPClient(), s.EtcdClient()
	}
	return p
}

// call is a request.
type call struct {
	method, path string
	header       http.Header
	body         string
}

func (c call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", c.method, c.path)
	for _, name := range []string{"Accept", "Content-Type"} {
		if value := c.header.Get(name); value != "" {
			fmt.Fprintf(&b, " [%s: %s]", name, value)
		}
	}
	return b.String()
}

// answer is the answer to a call.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// panicked stands for what becomes of a request whose handler panics.
func panicked() *answer { return &answer{body: []byte("the handler has panicked")} }

const requestTimeout = 40 * time.Second

// do sends a request. It repeats the request while the cache of its resource is being filled.
func (s *side) do(c call) (*answer, error) {
	var a *answer
	var failed error
	err := harness.Until(requestTimeout, func() error {
		a, failed = s.once(c)
		if failed != nil && strings.Contains(failed.Error(), "stream error: ") {
			// The handler has panicked. That of the other side must panic, too.
			a, failed = panicked(), nil
		}
		if failed == nil && a.status == http.StatusInternalServerError && bytes.Contains(a.body, []byte("caused apiserver to panic")) {
			// Here such a request is answered, and the stock server resets the stream.
			a = panicked()
		}
		if failed != nil {
			return nil
		}
		if a.status == http.StatusTooManyRequests && bytes.Contains(a.body, []byte("(re)initializing")) {
			return fmt.Errorf("still %.200s", a.body)
		}
		return nil
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("%s at %s: %w", c, s.URL, err)
	}
	return a, nil
}

func (s *side) once(c call) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	resp, err := s.send(ctx, c)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

func (s *side) send(ctx context.Context, c call) (*http.Response, error) {
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, s.URL+c.path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = c.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", "crds")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	return resp, nil
}

// get returns the body of an answer with status 200.
func (s *side) get(path, accept string) ([]byte, error) {
	a, err := s.do(call{method: http.MethodGet, path: path, header: http.Header{"Accept": {accept}}})
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("get %s: status %d: %.300s", path, a.status, a.body)
	}
	return a.body, nil
}

// both runs a function for both sides at the same time.
func (p *pair) both(run func(i int, s *side) error) error {
	var errs [2]error
	var running sync.WaitGroup
	for i, s := range p.sides {
		running.Go(func() { errs[i] = run(i, s) })
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%s: %w", sideNames[i], err)
		}
	}
	return nil
}

// stored returns the keys and values in etcd under a prefix, in order of the keys.
func (s *side) stored(prefix string) ([][2]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	resp, err := s.etcd.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	var entries [][2]string
	for _, kv := range resp.Kvs {
		entries = append(entries, [2]string{string(kv.Key), string(kv.Value)})
	}
	return entries, nil
}

func encodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
