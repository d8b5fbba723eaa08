package crds

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// normaliser makes answers of two servers comparable. It replaces identities and resource
// versions by the order in which they first appear, and times of the run by a word. Each
// side has a normaliser of its own.
type normaliser struct {
	// ordinals maps identities and versions to their replacements.
	ordinals map[string]string
	// counts has the number of replacements of each sort.
	counts map[string]int
	// generated maps names that the server generated to their prefixes.
	generated map[string]string
	// ignoreErrorOrder leaves out which of several errors structured merging names: it
	// stops at the first one in the order of a map.
	ignoreErrorOrder bool
	// now is when the run began.
	now time.Time
}

func newNormaliser() *normaliser {
	return &normaliser{ordinals: map[string]string{}, counts: map[string]int{}, generated: map[string]string{}, now: time.Now()}
}

// fork returns a copy, for a comparison that may have to be repeated.
func (n *normaliser) fork() *normaliser {
	return &normaliser{ordinals: maps.Clone(n.ordinals), counts: maps.Clone(n.counts), generated: maps.Clone(n.generated), ignoreErrorOrder: n.ignoreErrorOrder, now: n.now}
}

// ordinal returns the replacement of a value: its number in the order of first appearance
// among values of its sort.
func (n *normaliser) ordinal(sort, value string) string {
	key := sort + " " + value
	if _, ok := n.ordinals[key]; !ok {
		n.counts[sort]++
		n.ordinals[key] = fmt.Sprintf("<%s %d>", sort, n.counts[sort])
	}
	return n.ordinals[key]
}

// scope says how an answer is normalised.
type scope struct {
	// definitions is set for definitions. Controllers write to them, and how often depends
	// on timing, so their resource versions are not compared.
	definitions bool
}

// body normalises one JSON value, or several that follow one another.
func (n *normaliser) body(data []byte, s scope) (string, error) {
	trees, err := parse(data)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, t := range trees {
		n.object(t, s)
		b.WriteString(t.String())
	}
	return b.String(), nil
}

// object normalises a value and all values in it.
func (n *normaliser) object(t *tree, s scope) {
	if t.kind == 0 {
		if text, ok := t.scalar.(string); ok {
			t.scalar = n.text(text)
		}
		return
	}
	list := t.member("items") != nil || t.member("rows") != nil || t.at("metadata", "annotations", "k8s.io/initial-events-end") != nil
	n.metadata(t.member("metadata"), scope{definitions: s.definitions || list})
	switch t.member("kind").text() {
	case "Table":
		ages(t)
	case "Status":
		orderCauses(t)
	}
	if s.definitions {
		// A controller's later write owns this field only if it falls into another second.
		t.drop("f:lastTransitionTime")
	}
	for i, item := range t.items {
		if t.kind == '{' && t.names[i] == "uid" && item.text() != "" {
			item.scalar = n.ordinal("uid", item.text())
			continue
		}
		n.object(item, s)
		if t.kind == '{' && (t.names[i] == "managedFields" || t.names[i] == "conditions" && s.definitions) {
			slices.SortStableFunc(item.items, func(a, b *tree) int { return strings.Compare(a.String(), b.String()) })
		}
	}
}

// metadata replaces the resource version and the continue token of a list or an object. The
// version of a list also counts the writes of the server itself.
func (n *normaliser) metadata(m *tree, s scope) {
	if name, prefix := m.member("name").text(), m.member("generateName").text(); prefix != "" && strings.HasPrefix(name, prefix) {
		n.generated[name] = prefix
	}
	if v := m.member("resourceVersion"); v.text() != "" && v.text() != "0" {
		if s.definitions {
			v.scalar = "<version>"
		} else {
			v.scalar = n.ordinal("version", v.text())
		}
	}
	if c := m.member("continue"); c.text() != "" {
		c.scalar = token(c.text())
	}
}

// token returns the content of a continue token without its version.
func token(encoded string) string {
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	var fields map[string]any
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return "<unreadable token " + encoded + ">"
	}
	// The stock server writes the same key with a slash in front or without,
	// depending on whether etcd or its cache made the page; it reads both.
	if start, ok := fields["start"].(string); ok {
		fields["start"] = strings.TrimPrefix(start, "/")
	}
	if _, ok := fields["rv"]; ok {
		fields["rv"] = "<version>"
	}
	plain, _ := json.Marshal(fields)
	return string(plain)
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moment    = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)?`)
	versions  = regexp.MustCompile(`((?i:resource ?version)[a-z ]*: )\d+( \(\d+\))?(, current: \d+)?`)
	loopback  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	embedded  = regexp.MustCompile(`(\\*"resourceVersion\\*":\\*")\d+`)
	decoded   = regexp.MustCompile(`(object not decodable revision=)\d+`)
	recorded  = regexp.MustCompile(`(ResourceVersion in record )\(\d+\)`)
	justNow   = regexp.MustCompile(`^(\d+m)?\d+s$|^\d+m$`)
	generated = regexp.MustCompile(`[a-z0-9][-a-z0-9.]*`)
)

// text normalises a string, such as the message of an error.
func (n *normaliser) text(s string) string {
	s = uuid.ReplaceAllStringFunc(s, func(id string) string { return n.ordinal("uid", id) })
	s = moment.ReplaceAllStringFunc(s, func(at string) string {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 -0700 MST"} {
			if parsed, err := time.Parse(layout, at); err == nil && parsed.Sub(n.now).Abs() < time.Hour {
				return fmt.Sprintf("<now, %d digits>", len(at))
			}
		}
		return at
	})
	s = versions.ReplaceAllString(s, "$1<version>")
	s = decoded.ReplaceAllString(s, "$1<version>")
	s = recorded.ReplaceAllString(s, "$1(<version>)")
	s = harness.QuotedManagedFields.ReplaceAllString(s, "$1<managed fields>$2")
	s = embedded.ReplaceAllString(s, "$1<version>")
	if head, errors, ok := strings.Cut(s, "errors:\n"); ok {
		lines := strings.Split(errors, "\n")
		slices.Sort(lines)
		s = head + "errors:\n" + strings.Join(lines, "\n")
	}
	if head, _, ok := strings.Cut(s, "failed to create typed patch object"); ok && n.ignoreErrorOrder {
		s = head + "failed to create typed patch object"
	}
	s = loopback.ReplaceAllString(s, "<address>")
	if len(n.generated) > 0 {
		s = generated.ReplaceAllStringFunc(s, func(name string) string {
			if prefix, ok := n.generated[name]; ok {
				return prefix + "<" + strings.Trim(n.ordinal("name", name), "<>") + ">"
			}
			return name
		})
	}
	return s
}

// ages replaces the ages in a table that count seconds since the object's
// creation; older dates have ages that stay.
func ages(table *tree) {
	rows := table.member("rows")
	if rows == nil {
		return
	}
	for _, row := range rows.items {
		cells := row.member("cells")
		if cells == nil {
			continue
		}
		for _, cell := range cells.items {
			if justNow.MatchString(cell.text()) {
				cell.scalar = "<age>"
			}
		}
	}
}

// orderCauses sorts the errors of fields in a status. Kubernetes lists those of properties
// in the order of a map.
func orderCauses(status *tree) {
	causes := status.at("details", "causes")
	if causes == nil || len(causes.items) < 2 {
		return
	}
	var errors []string
	for _, c := range causes.items {
		errors = append(errors, c.member("field").text()+": "+c.member("message").text())
	}
	message := status.member("message")
	head, listed, ok := strings.Cut(message.text(), " is invalid: ")
	slices.Sort(errors)
	errors = slices.Compact(errors)
	length := len("[]") + len(", ")*(len(errors)-1)
	for _, e := range errors {
		length += len(e)
		ok = ok && strings.Contains(listed, e)
	}
	if ok && len(listed) == length {
		message.scalar = head + " is invalid: [" + strings.Join(errors, ", ") + "]"
	}
	slices.SortStableFunc(causes.items, func(a, b *tree) int { return strings.Compare(a.String(), b.String()) })
}
