// Package accounts sends the same load to both read paths and compares what they say of
// it: each metric under one of Kubernetes' names, and each event of the audit log. What
// differs stands in known_test.go with its reason, and in docs/guarantees.md.
//
// Each server has an etcd of its own, since writes are part of the load.
package accounts

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// policy leaves out what the servers do by themselves, which is not the same.
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

// server is one of the two, with what the load has learned of it.
type server struct {
	*harness.Server
	auditLog string
	// learned are values that requests take out of answers.
	learned map[string]string
}

func start(t *testing.T, readPath string, more ...string) *server {
	t.Helper()
	dir := harness.ShortTempDir(t)
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, token+",user,user,\"\"\n"+scraperToken+",scraper,scraper,system:masters\n")
	flags := append([]string{"--read-path=" + readPath, "--token-auth-file=" + tokens}, more...)
	s := &server{auditLog: filepath.Join(dir, "audit.log"), learned: map[string]string{}}
	s.Server = harness.Launch(t, filepath.Join(dir, "data"), flags...)
	return s
}

// audited are flags for an audit log.
func audited(t *testing.T, log string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, file, policy)
	return []string{"--audit-policy-file=" + file, "--audit-log-path=" + log}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair are the two read paths.
type pair struct{ ours, theirs *server }

// both does something with both servers at a time.
func (p *pair) both(do func(s *server)) {
	var wg sync.WaitGroup
	for _, s := range []*server{p.ours, p.theirs} {
		wg.Go(func() { do(s) })
	}
	wg.Wait()
}

// TestReadPathsKeepAccounts compares the accounts of a mixed load, with an audit log and
// without, as some requests go other ways without.
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
				return audited(t, filepath.Join(dir, name))
			}
			p := &pair{start(t, "millrace", flags("ours")...), start(t, "kubernetes", flags("theirs")...)}
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
	// What etcd does not tell in time is not in one scrape.
	compareFamilies(t, familiesOf(before[0], open[0], after[0]), familiesOf(before[1], open[1], after[1]))
	compareOpen(t, before, open)
	compareCounts(t, before, after)
	if withAudit {
		compareAudit(t, p.ours.auditLog, p.theirs.auditLog)
	}
}
