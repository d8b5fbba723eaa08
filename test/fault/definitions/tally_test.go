package definitions

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tally counts answers by verb, kind of body and status, and notes violations.
type tally struct {
	mu struct {
		sync.Mutex
		counts map[tallyKey]map[string]int
		// messages has the errors of servers for a key and status, without names, each with
		// the first request that got it.
		messages map[tallyKey]map[string]map[string]string
		// violated has violations by what they are, with their number and the first one.
		violated map[string]*violation
	}
}

type tallyKey struct{ verb, kind string }

type violation struct {
	number int
	first  string
}

func newTally() *tally {
	t := &tally{}
	t.mu.counts, t.mu.violated = map[tallyKey]map[string]int{}, map[string]*violation{}
	t.mu.messages = map[tallyKey]map[string]map[string]string{}
	return t
}

func (t *tally) count(verb, kind, status string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tallyKey{verb, kind}
	if t.mu.counts[key] == nil {
		t.mu.counts[key] = map[string]int{}
	}
	t.mu.counts[key][status]++
}

// names are what differs between two errors of one kind.
var names = regexp.MustCompile(`v[0-9]+\b|[0-9]+|minis|midis|maxis|Mini|Midi|Maxi|\bdefault\b|kube-public|\b(a|b|c|d|absent)\b`)

// explain notes the message of an error with a status, and the request that got it.
func (t *tally) explain(verb, kind, status, message, request string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tallyKey{verb, kind}
	if t.mu.messages[key] == nil {
		t.mu.messages[key] = map[string]map[string]string{}
	}
	if t.mu.messages[key][status] == nil {
		t.mu.messages[key][status] = map[string]string{}
	}
	message = names.ReplaceAllString(message, "*")
	if t.mu.messages[key][status][message] == "" {
		t.mu.messages[key][status][message] = request
	}
}

func (t *tally) violate(what, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.mu.violated[what]
	if v == nil {
		v = &violation{first: text}
		t.mu.violated[what] = v
	}
	v.number++
}

// violations lists what was violated.
func (t *tally) violations() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(t.mu.violated)) {
		v := t.mu.violated[what]
		all = append(all, fmt.Sprintf("  %s: %d times, first: %.1500s", what, v.number, v.first))
	}
	return all
}

// summary says how many requests and changes there were, and their statuses.
func (t *tally) summary() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	requests, changes, statuses := 0, 0, map[string]int{}
	for key, counts := range t.mu.counts {
		for status, n := range counts {
			if strings.HasSuffix(key.verb, " definition") {
				changes += n
				continue
			}
			requests += n
			statuses[status] += n
		}
	}
	return fmt.Sprintf("%d changes, %d requests and streams: %v", changes, requests, statuses)
}

const (
	// enough is the number of answers of the stock server from which on a client's error that
	// is missing among them counts, if ours has it at least often times.
	enough, often = 200, 10
)

// ruled are errors that follow from the state that a request meets, on either server. Whether
// the stock server has met such a state in this run is chance.
var ruled = []string{
	// The webhook fails on purpose.
	"conversion webhook for ",
	// Kubernetes' field manager cannot convert fields that were applied in a version that the
	// definition no longer has.
	"request to convert CR to an invalid group/version",
}

// known4xx are refusals in the place of the stock server's panics (docs/guarantees.md).
var known4xx = map[string]bool{"create protobuf 400": true}

// compare returns the violations of ours, and the statuses that theirs never has for the same
// verb and kind of body. Lost requests count each, and so do errors of the server, unless
// the stock server explains another request's error in the same words. Which error of the
// client a request gets depends on what it meets, so rare ones do not count.
func compare(ours, theirs *tally) []string {
	findings := ours.violations()
	known := theirs.allMessages()
	for _, key := range ours.keys() {
		has, reference := ours.of(key), theirs.of(key)
		total, classes := 0, map[string]int{}
		for status, n := range reference {
			total += n
			classes[class(status)] += n
		}
		for _, status := range slices.Sorted(maps.Keys(has)) {
			never := reference[status] == 0
			switch class(status) {
			case "2xx":
				never = classes["2xx"] == 0 && total >= enough
			case "4xx":
				never = never && !known4xx[key.verb+" "+strings.TrimSuffix(key.kind, " dry")+" "+status] && total >= enough && has[status] >= often
			}
			why := ""
			if never && class(status) == status {
				if why = ours.unknown(key, status, known); why == "" {
					continue
				}
			}
			if never {
				findings = append(findings, fmt.Sprintf("  %s %s: status %s %d times, the stock server never of %d%s",
					key.verb, key.kind, status, has[status], total, why))
			}
		}
	}
	return findings
}

// unknown describes the first error with a status that is in no other server's words, nor
// ruled. It returns "" if there is none.
func (t *tally) unknown(key tallyKey, status string, known map[string]bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.messages[key][status] == nil {
		return ": without a message"
	}
	for _, message := range slices.Sorted(maps.Keys(t.mu.messages[key][status])) {
		if !known[message] && !slices.ContainsFunc(ruled, func(part string) bool { return strings.Contains(message, part) }) {
			return fmt.Sprintf(": %.500s: %s", t.mu.messages[key][status][message], message)
		}
	}
	return ""
}

func (t *tally) allMessages() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]bool{}
	for _, statuses := range t.mu.messages {
		for _, messages := range statuses {
			for message := range messages {
				all[message] = true
			}
		}
	}
	return all
}

// listMessages lists the errors by verbs.
func (t *tally) listMessages() string {
	verbs := map[string]map[string]bool{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, statuses := range t.mu.messages {
		for status, messages := range statuses {
			for message := range messages {
				if text := fmt.Sprintf("%s %.300s", status, message); verbs[text] == nil {
					verbs[text] = map[string]bool{key.verb: true}
				} else {
					verbs[text][key.verb] = true
				}
			}
		}
	}
	var b strings.Builder
	for _, text := range slices.Sorted(maps.Keys(verbs)) {
		fmt.Fprintf(&b, "  %s (%s)\n", text, strings.Join(slices.Sorted(maps.Keys(verbs[text])), ", "))
	}
	return b.String()
}

// class returns the class of a status. 429 and errors of the server are classes of their own.
func class(status string) string {
	if len(status) == 3 && status != "429" && (status[0] == '2' || status[0] == '4') {
		return status[:1] + "xx"
	}
	return status
}

func (t *tally) keys() []tallyKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.mu.counts), func(a, b tallyKey) int {
		return cmp.Or(cmp.Compare(a.verb, b.verb), cmp.Compare(a.kind, b.kind))
	})
}

func (t *tally) of(key tallyKey) map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.mu.counts[key])
}

// table shows all counts beside each other.
func table(ours, theirs *tally) string {
	var b strings.Builder
	for _, key := range ours.keys() {
		fmt.Fprintf(&b, "  %-40s %-60s %s\n", key.verb+" "+key.kind, counts(ours.of(key)), counts(theirs.of(key)))
	}
	return b.String()
}

func counts(of map[string]int) string {
	var all []string
	for _, status := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s:%d", status, of[status]))
	}
	return strings.Join(all, " ")
}

// TestCompare checks that the comparison finds what it is for, and nothing else.
func TestCompare(t *testing.T) {
	t.Parallel()
	fill := func(n map[string]int) *tally {
		made := newTally()
		for status, n := range n {
			for range n {
				made.count("create", "json", status)
			}
		}
		return made
	}
	theirs := map[string]int{"201": 300, "404": 50}
	for _, c := range []struct {
		ours map[string]int
		want int
	}{
		{map[string]int{"201": 1, "404": 70}, 0},
		{map[string]int{"201": 1, "409": 3}, 0},
		{map[string]int{"409": 30}, 1},
		{map[string]int{"204": 1, "409": 5}, 0},
		{map[string]int{"201": 100, "500": 1}, 1},
		{map[string]int{"201": 100, "429": 1}, 1},
		{map[string]int{"201": 100, "lost": 1, "unanswered": 1}, 2},
	} {
		if got := compare(fill(c.ours), fill(theirs)); len(got) != c.want {
			t.Errorf("%v: %d findings, want %d: %v", c.ours, len(got), c.want, got)
		}
	}
	explained := func(message string) *tally {
		made := fill(map[string]int{"500": 1})
		made.explain("create", "json", "500", message, "POST /")
		return made
	}
	other := newTally()
	other.explain("update", "json", "500", "Mini in v1 is broken", "PUT /")
	for message, want := range map[string]int{"Midi in v3 is broken": 0, "is broken otherwise": 1, "conversion webhook for v1 failed": 0} {
		if got := compare(explained(message), other); len(got) != want {
			t.Errorf("%s: %d findings, want %d: %v", message, len(got), want, got)
		}
	}
	ours := fill(theirs)
	ours.violate("connection lost", "GET /")
	if got := compare(ours, fill(theirs)); len(got) != 1 || !strings.Contains(got[0], "connection lost") {
		t.Errorf("a violation is not a finding: %v", got)
	}
}
