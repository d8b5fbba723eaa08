package analyze

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/price"
)

// accountsSeconds is the period that a Millrace server's accounts cover (docs/lists.md).
const accountsSeconds = 600

// kindAdvice is the Finding.Kind of the advice of a Millrace server, which rests on measured
// accounts.
const kindAdvice = "advice"

// readAccounts returns a report of a Millrace server's accounts, as "millrace-tools top lists -o
// json" prints them. The server has measured the costs itself.
func (f *flags) readAccounts(stdin io.Reader) (*Report, error) {
	var data []byte
	var err error
	if f.accounts == auditlog.Stdin {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(f.accounts)
	}
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	var l serverreport.ListsReport
	if err := json.Unmarshal(data, &l); err != nil || l.Time.IsZero() {
		return nil, fmt.Errorf("read accounts %s: it is not what millrace-tools top lists -o json printed", f.accounts)
	}
	r := &Report{From: l.Time.Add(-accountsSeconds * time.Second), To: l.Time, Seconds: accountsSeconds}
	r.Run = Run{Options: f.Options, Machine: price.Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}}
	r.fillAccounts(&l)
	return r, nil
}

// fillAccounts sets costs, findings and notes from the accounts of a server.
func (r *Report) fillAccounts(l *serverreport.ListsReport) {
	for i := range l.Shapes {
		s := &l.Shapes[i]
		row := ShapeCost{SentShape: SentShape{Shape: s.Shape, Source: s.Path}, Fleet: 1, Cost: Cost{ListCost: s.ListCost, TierCPU: s.CPU}}
		if len(s.Clients) > 0 {
			row.Client = s.Clients[0]
		}
		r.Shapes = append(r.Shapes, row)
		r.Total.add(&row.Cost)
		if len(s.Advice) > 0 && !isReplica(row.UserAgent) {
			r.Findings = append(r.Findings, adviceFinding(&row, s.Advice))
		}
	}
	for i := range l.Clients {
		c := &l.Clients[i]
		r.Clients = append(r.Clients, ClientCost{Client: c.Client, Fleet: 1, Cost: Cost{ListCost: c.ListCost, TierCPU: c.CPU}})
	}
	slices.SortFunc(r.Clients, compareClients)
	for i := range l.Storms {
		s := &l.Storms[i]
		r.Notes = append(r.Notes, fmt.Sprintf("Storm: %d of %d %s list %s. %s",
			s.Clients, s.Fleet, display.Clean(s.UserAgent), display.Clean(s.Resource), display.Clean(s.Advice)))
	}
	r.Notes = append(r.Notes, "The figures are a Millrace server's own accounts of ten minutes: CPU was measured, and what "+
		"the advice would save is not known. "+
		"A request names the client that sends it most.")
}

// adviceFinding returns a finding with a server's advice on the requests of a shape.
func adviceFinding(s *ShapeCost, advice []string) Finding {
	f := Finding{Kind: kindAdvice, Client: s.Client, Resource: s.Resource, Fleet: s.Fleet, Cost: s.Cost, source: s.Source}
	f.Request = s.Example()
	f.Sentence = fmt.Sprintf("%s sends %s, most of all clients.", display.Clean(s.Client.Name()), cleanRequest(f.Request))
	f.Repair, f.Setting = strings.TrimSuffix(advice[0], "."), strings.Join(advice, " ")
	f.Why, f.FlowSchema = f.why(), flowSchema(&f)
	return f
}
