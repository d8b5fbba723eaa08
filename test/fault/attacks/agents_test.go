package attacks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// agentTokens is how many tokens agents have, one each. knownAgents of them read from the
	// start, and the others are new.
	agentTokens, knownAgents = 5000, 50
	// agentPeriod is the time between two reads of agents. Each newAgentEvery-th is the first
	// one of an agent.
	agentPeriod, newAgentEvery = 10 * time.Millisecond, 4
)

// agentPath leads to an object that only agents read, so that their reads can be told from
// others where they arrive.
const agentPath = "/api/v1/namespaces/default/services/kubernetes?resourceVersion=0"

func agentToken(i int) string { return fmt.Sprintf("agent-%d", i) }

// agents are many honest clients of a server, with a token each. They read what a cache may
// have, so that none of their reads has to be passed on.
type agents struct {
	*server
	client *http.Client
	// next is the next agent that is new.
	next int
}

// agentReads counts reads of agents.
type agentReads struct {
	Reads, Failed int
	// Err is the last failure.
	Err error `json:"-"`
}

// run has agents read until the context ends, and returns when all have their answers.
func (a *agents) run(ctx context.Context) (reads agentReads) {
	tick := time.NewTicker(agentPeriod)
	defer tick.Stop()
	var all sync.WaitGroup
	var mu sync.Mutex
	defer all.Wait()
	for i := 1; ; i++ {
		agent := i % knownAgents
		if i%newAgentEvery == 0 {
			a.next++
			agent = knownAgents + a.next%(agentTokens-knownAgents)
		}
		reads.Reads++
		all.Go(func() {
			if err := a.read(agentToken(agent)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				reads.Failed++
				reads.Err = err
			}
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
			all.Wait()
			return reads
		}
	}
}

func (a *agents) read(token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), honestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+agentPath, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("agent: %s", resp.Status)
	}
	return nil
}
