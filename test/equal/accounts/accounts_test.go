// Package accounts sends the same load to both read paths and compares the accounts that
// they keep of it: each metric with one of Kubernetes' names, and each event of the audit
// log. known_differences_test.go lists the differences with their reasons, and so does
// docs/guarantees.md.
//
// Each server has an etcd of its own, because the load contains writes.
package accounts

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// policy leaves out requests that the servers make themselves, which differ.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  nonResourceURLs: ["/metrics", "/readyz*"]
- level: Request
  resources:
  - group: ""
    resources: ["configmaps"]
- level: RequestResponse
  omitStages: ["RequestReceived"]
  resources:
  - group: ""
    resources: ["limitranges"]
- level: Metadata
  omitStages: ["ResponseComplete"]
  resources:
  - group: ""
    resources: ["replicationcontrollers"]
- level: Metadata
`

const (
	token        = "account-token"
	scraperToken = "account-scraper"
)

// server is one of the two servers, and what the load has learned from its answers.
type server struct {
	*harness.Server
	auditLog string
	// learned are values from answers that later requests use.
	learned map[string]string
	// stock says that it has Kubernetes' read path.
	stock bool
	// chance says what the stock server did by chance, if it did. The accounts differ then.
	chance string
}

func startServer(t *testing.T, readPath string, more ...string) *server {
	t.Helper()
	dir := harness.ShortTempDir(t)
	tokens := filepath.Join(dir, "tokens.csv")
	writeFile(t, tokens, token+",user,user,\"\"\n"+scraperToken+",scraper,scraper,system:masters\n")
	flags := append([]string{"--read-path=" + readPath, "--token-auth-file=" + tokens}, more...)
	s := &server{auditLog: filepath.Join(dir, "audit.log"), learned: map[string]string{}, stock: readPath == "kubernetes"}
	s.Server = harness.Launch(t, filepath.Join(dir, "data"), flags...)
	return s
}

// auditFlags are the flags for an audit log.
func auditFlags(t *testing.T, log string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	writeFile(t, file, policy)
	return []string{"--audit-policy-file=" + file, "--audit-log-path=" + log}
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair is a server of each read path.
type pair struct{ ours, theirs *server }

// both calls a function for both servers concurrently.
func (p *pair) both(do func(s *server)) {
	var wg sync.WaitGroup
	for _, s := range []*server{p.ours, p.theirs} {
		wg.Go(func() { do(s) })
	}
	wg.Wait()
}

// TestReadPathsKeepAccounts compares the accounts of a mixed load: once with an audit
// log, and once without, since some requests are handled differently then.
func TestReadPathsKeepAccounts(t *testing.T) {
	for _, withAudit := range []bool{true, false} {
		name := "audited"
		if !withAudit {
			name = "not audited"
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			flags := func(name string) []string {
				if !withAudit {
					return nil
				}
				return auditFlags(t, filepath.Join(dir, name))
			}
			p := &pair{startServer(t, "millrace", flags("ours")...), startServer(t, "kubernetes", flags("theirs")...)}
			p.ours.auditLog, p.theirs.auditLog = filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
			began := time.Now()
			p.both(func(s *server) { s.WaitReady() })
			t.Log("started in ", time.Since(began))
			if withAudit {
				p.compareManagers(t)
			}
			p.compare(t, withAudit)
		})
	}
}

func (p *pair) compare(t *testing.T, withAudit bool) {
	var before, open, after [2]*metrics
	p.both(func(s *server) {
		i := 0
		if s == p.theirs {
			i = 1
		}
		l := newLoad(t, s)
		l.prepare()
		before[i] = l.scrape()
		began := time.Now()
		l.run()
		t.Log(s.URL, " took ", time.Since(began))
		release := l.holdWatches()
		open[i] = l.scrape()
		release()
		after[i] = l.scrape()
	})
	if p.theirs.chance != "" {
		t.Skip("not compared: ", p.theirs.chance)
	}
	compareFamilies(t, familiesOf(before[0], open[0], after[0]), familiesOf(before[1], open[1], after[1]))
	compareOpen(t, before, open)
	compareCounts(t, before, after)
	if withAudit {
		compareAudit(t, p.ours.auditLog, p.theirs.auditLog)
	}
}
