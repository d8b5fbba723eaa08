package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/tool/display"
)

// requestTimeout bounds the request for a report.
const requestTimeout = 10 * time.Second

var (
	// errAbsent means that the server does not serve a report.
	errAbsent = errors.New("the server does not have the report")
	// errRefused means that a retry cannot succeed.
	errRefused = errors.New("refused")
)

// client reads the reports of one server.
type client struct {
	http *http.Client
	host string // as in "https://10.0.0.1:6443"
}

func newClient(config *rest.Config) (*client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &client{http: h, host: strings.TrimSuffix(host.String(), "/")}, nil
}

// get returns the bytes of a report as the server sent them. The error is an errAbsent if the
// server does not serve the report, and an errRefused if it does not serve it to this user.
func (c *client) get(ctx context.Context, report string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host+dashboard.Prefix+report, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s (%w): see that the server runs, or name another server "+
			"with --kubeconfig, --context or --data-dir", c.host, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", report, err)
	}
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	return nil, explain(resp, report, body)
}

// maxReasonBytes is the length from which a body that is not a Status is left out.
const maxReasonBytes = 500

// explain returns an error for a response other than 200. If the status is one that a user
// can do something about, the error says what.
func explain(resp *http.Response, report string, body []byte) error {
	reason := "it gives no reason"
	var status metav1.Status
	switch text := strings.TrimSpace(string(body)); {
	case json.Unmarshal(body, &status) == nil && status.Message != "":
		reason = display.Clean(status.Message)
	case text != "" && len(text) < maxReasonBytes:
		reason = display.Clean(text)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: the server does not accept the kubeconfig's credentials (%s): "+
			"they may have expired, or be of another cluster", errRefused, reason)
	case http.StatusForbidden:
		return fmt.Errorf(`%w: %s.
A reader of reports needs this rule of a ClusterRole (deploy/monitoring/viewer.yaml):
  - nonResourceURLs: ["%s*"]
    verbs: ["get"]
An administrator grants it with
  kubectl create clusterrole millrace-viewer --verb=get --non-resource-url='%s*'
  kubectl create clusterrolebinding millrace-viewer-USER --clusterrole=millrace-viewer --user=USER`,
			errRefused, reason, dashboard.Prefix, dashboard.Prefix)
	case http.StatusNotFound:
		return fmt.Errorf("%w %s (%s): it is not Millrace, is an older version, or runs with --read-path=kubernetes", errAbsent, report, reason)
	}
	return fmt.Errorf("read %s: the server answers %s: %s", report, resp.Status, reason)
}
