package auditlog

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// NodeUser stands for the users of all kubelets, which are one client with many instances.
const NodeUser = "system:node:*"

const nodeUserPrefix = "system:node:"

// Bounds of a Shaper. The sizes of selectors include their escapes.
const (
	MaxWords                   = 1 << 14
	maxWordBytes               = 512
	maxSelectors               = 4096
	maxRememberedSelectorBytes = 1 << 10
	// maxParsedSelectorBytes bounds memory: the parser needs many times the size of a selector.
	maxParsedSelectorBytes = 64 << 10
)

// Shaper derives the client and the shape of events. It remembers up to MaxWords words and
// maxSelectors selectors, and forgets all when it has as many. The zero value is ready. A Shaper is
// for one goroutine.
type Shaper struct {
	words     map[string]string
	selectors map[string]string
	scratch   []byte
}

// Intern returns bytes as a string, clipped to 512 bytes. Equal bytes share one string while the
// Shaper remembers it.
func (s *Shaper) Intern(b []byte) string {
	b = Clip(b)
	if word, ok := s.words[string(b)]; ok { // does not copy
		return word
	}
	if s.words == nil || len(s.words) >= MaxWords {
		s.words = map[string]string{}
	}
	word := string(b)
	s.words[word] = word
	return word
}

// Words returns the number of words that are remembered.
func (s *Shaper) Words() int { return len(s.words) }

// Clip returns the first 512 bytes of a word, or up to 3 less: it cuts between characters.
func Clip(b []byte) []byte {
	if len(b) <= maxWordBytes {
		return b
	}
	end := maxWordBytes
	for end > maxWordBytes-utf8.UTFMax && !utf8.RuneStart(b[end]) {
		end--
	}
	return b[:end]
}

// Client returns the client of an event.
func (s *Shaper) Client(e *Event) serverreport.Client {
	user := s.Intern(e.User)
	if strings.HasPrefix(user, nodeUserPrefix) {
		user = NodeUser
	}
	return serverreport.NewClient(user, s.Intern(e.UserAgent))
}

// AppendInstance appends the identity of an instance of a client: the user and the program. Then
// follows the pod of the token or, unless the client is a node, the address.
func AppendInstance(dst []byte, e *Event, client serverreport.Client) []byte {
	dst = append(append(append(dst, Clip(e.User)...), 0), client.UserAgent...)
	dst = append(dst, 0)
	if len(e.Pod) > 0 {
		dst = append(dst, Clip(e.Pod)...)
	} else if client.User != NodeUser {
		dst = append(dst, Clip(e.Address)...)
	}
	return dst
}

// Shape returns the shape of an event. r is its request. The shape has no Encoding, Path and
// Reason, which a log does not have. Without a resource in the
// path, Resource is the path's first two parts. Selectors over 64 KiB have no keys.
func (s *Shaper) Shape(e *Event, r *Request) (shape serverreport.Shape) {
	defer shape.Truncate()
	shape.Verb = s.Intern(e.Verb)
	if len(r.Resource) == 0 {
		shape.Resource = s.Intern(firstParts(e.URI))
		return shape
	}
	s.scratch = append(s.scratch[:0], Clip(r.Resource)...)
	if len(r.Group) > 0 {
		s.scratch = append(append(s.scratch, '.'), Clip(r.Group)...)
	}
	if len(r.Subresource) > 0 {
		s.scratch = append(append(s.scratch, '/'), Clip(r.Subresource)...)
	}
	shape.Resource, shape.Version, shape.Scope = s.Intern(s.scratch), s.Intern(r.Version), r.Scope()
	switch shape.Verb {
	case "get":
		shape.Revision = r.RevisionMode()
		return shape
	case "list":
		shape.Limit = parseLimit(r.Limit)
	case "watch":
	default:
		return shape
	}
	shape.Revision = r.RevisionMode()
	shape.Selectors = s.selectorsOf(r)
	return shape
}

// firstParts returns the first two parts of a path without a resource.
func firstParts(uri []byte) []byte {
	parts := 0
	for i, b := range uri {
		if b == '?' || b == '/' && i > 0 {
			if parts++; b == '?' || parts == 2 {
				return uri[:i]
			}
		}
	}
	return uri
}

// parseLimit returns the limit of a LIST, 0 if text is not a number below 2⁴⁴.
func parseLimit(text []byte) int64 {
	n, err := strconv.ParseUint(string(text), 10, 44)
	if err != nil {
		return 0
	}
	return int64(n)
}

// selectorsOf returns the keys of a request's selectors. It remembers them by selector, because
// parsing takes longer than all else.
func (s *Shaper) selectorsOf(r *Request) string {
	switch size := len(r.LabelSelector) + len(r.FieldSelector) + len(r.ShardSelector); {
	case size == 0 || size > maxParsedSelectorBytes:
		return ""
	case size > maxRememberedSelectorBytes:
		return s.parseSelectors(r)
	}
	s.scratch = append(append(append(append(append(s.scratch[:0], r.LabelSelector...), 0), r.FieldSelector...), 0), r.ShardSelector...)
	if keys, ok := s.selectors[string(s.scratch)]; ok {
		return keys
	}
	if s.selectors == nil || len(s.selectors) >= maxSelectors {
		s.selectors = map[string]string{}
	}
	keys := s.parseSelectors(r)
	s.selectors[string(s.scratch)] = keys
	return keys
}

func (s *Shaper) parseSelectors(r *Request) string {
	return s.Intern([]byte(Selectors(string(r.LabelSelector), string(r.FieldSelector), string(r.ShardSelector))))
}
