package auditlog

import (
	"slices"
	"time"
)

// Event has the fields of an audit event that tell who asked for what. Its bytes are valid
// until the next one is read.
type Event struct {
	// AuditID is one of a request: the same at all stages.
	AuditID          []byte
	Stage, Verb, URI []byte
	// User is the impersonated user, if there is one.
	User, UserAgent []byte
	// Groups are the user's, if the scanner keeps them.
	Groups [][]byte
	// Pod and Node are those of the token with which a pod's program signed in.
	Pod, Node []byte
	// Address is the last of the source addresses: the only one that a client cannot
	// choose.
	Address []byte
	// Code is the HTTP status, 0 if there was none.
	Code int
	// ResponseBytes is the size of the answer's object as JSON, 0 if the log has none.
	ResponseBytes int
	// Received and Staged are in microseconds since 1970, 0 if they are missing.
	Received, Staged int64
}

// Time is when the stage was reached, or else when the request was received, in
// microseconds since 1970. It is 0 if the event has neither, or one before 1970.
func (e *Event) Time() int64 {
	if e.Staged > 0 {
		return e.Staged
	}
	return max(0, e.Received)
}

// Values of Event.Stage.
const (
	StageStarted  = "ResponseStarted"
	StageComplete = "ResponseComplete"
	StagePanic    = "Panic"
)

// scanner takes an event, or what may have events in it, out of one JSON object.
type scanner struct {
	// keepGroups sets Event.Groups.
	keepGroups bool
	// wrappings are the fields that may have events, and whether they are lists.
	wrappings map[string]bool

	lexer lexer
	event Event
	// impersonated says that the user is the impersonated one.
	impersonated bool
	// time is the only one that events of audit.k8s.io/v1beta1 had at first.
	time int64
	// list is the name of the list in which the scanner has stopped, if there is one.
	list string
	// payloads may have events. The first are the texts: an object of the same record is about
	// the text. piece says that the record has a name of a stream, as Docker's have: its text may
	// be a piece of a line.
	payloads []payload
	texts    int
	piece    bool
}

// payload is a field of a record that may have events.
type payload struct {
	key  string
	data []byte
	// text says that data is the text of a string.
	text bool
}

// scan consumes an object, up to the beginning of a list of records if it has one. It
// returns the length of what it consumed. If short, the object does not end in data.
func (s *scanner) scan(data []byte) (n int, short, ok bool) {
	s.lexer = lexer{data: data, text: s.lexer.text[:0]}
	s.event, s.impersonated, s.time = Event{Groups: s.event.Groups[:0]}, false, 0
	s.list, s.payloads, s.texts, s.piece = "", s.payloads[:0], 0, false
	l := &s.lexer
	if !l.begin('{') {
		l.fail()
	}
	for first := true; l.more('}', first); first = false {
		if s.member(); s.list != "" {
			break
		}
	}
	if s.event.Received == 0 && s.event.Staged == 0 {
		s.event.Received = s.time
	}
	return l.pos, l.short, !l.bad
}

// scanTail consumes a member of an object behind a list of records, or the object's end.
func (s *scanner) scanTail(data []byte) (n int, ended, short, ok bool) {
	s.lexer, s.list = lexer{data: data, text: s.lexer.text[:0]}, ""
	if ended = !s.lexer.more('}', false); !ended {
		s.member()
	}
	return s.lexer.pos, ended, s.lexer.short, !s.lexer.bad
}

// member consumes a member of a record, or the beginning of a list of records.
func (s *scanner) member() {
	l := &s.lexer
	name := l.key()
	list, wraps := s.wrappings[string(name)]
	switch c := l.peek(); {
	case wraps && list && c == '[':
		s.list = string(name)
		l.pos++
	case wraps && !list && (c == '{' || c == '"'):
		s.addPayload(string(name), c == '"')
	default:
		s.scanField(name)
	}
}

func (s *scanner) addPayload(key string, text bool) {
	l, start := &s.lexer, s.lexer.pos
	if text {
		s.payloads = slices.Insert(s.payloads, s.texts, payload{key, l.string(), true})
		s.texts++
		return
	}
	l.skip()
	s.payloads = append(s.payloads, payload{key: key, data: l.data[start:l.pos]})
}

// scanField consumes the value of a field of an event.
func (s *scanner) scanField(name []byte) {
	l, e := &s.lexer, &s.event
	switch string(name) {
	case "auditID":
		s.text(&e.AuditID)
	case "stage":
		s.text(&e.Stage)
	case "verb":
		s.text(&e.Verb)
	case "requestURI":
		s.text(&e.URI)
	case "userAgent":
		s.text(&e.UserAgent)
	case "user":
		s.scanUser(!s.impersonated)
	case "impersonatedUser":
		if l.peek() == '{' {
			s.impersonated = true
			e.Pod, e.Node, e.Groups = nil, nil, e.Groups[:0]
		}
		s.scanUser(true)
	case "sourceIPs":
		s.scanLast(&e.Address)
	case "responseStatus":
		s.scanStatus()
	case "responseObject":
		if n := l.skip(); n > len("null") {
			e.ResponseBytes = n
		}
	case "requestReceivedTimestamp":
		s.scanTime(&e.Received)
	case "stageTimestamp":
		s.scanTime(&e.Staged)
	case "timestamp":
		s.scanTime(&s.time)
	case "stream":
		s.piece = true
		l.skip()
	default:
		l.skip()
	}
}

// text consumes a string. It skips another value.
func (s *scanner) text(into *[]byte) {
	if s.lexer.peek() == '"' {
		*into = s.lexer.string()
		return
	}
	s.lexer.skip()
}

// scanUser consumes a user, and keeps it if wanted.
func (s *scanner) scanUser(wanted bool) {
	l := &s.lexer
	if !wanted || !l.begin('{') {
		l.skip()
		return
	}
	for first := true; l.more('}', first); first = false {
		switch string(l.key()) {
		case "username":
			s.text(&s.event.User)
		case "groups":
			s.scanGroups()
		case "extra":
			s.scanExtra()
		default:
			l.skip()
		}
	}
}

func (s *scanner) scanGroups() {
	l := &s.lexer
	if !s.keepGroups || !l.begin('[') {
		l.skip()
		return
	}
	for first := true; l.more(']', first); first = false {
		var group []byte
		s.text(&group)
		s.event.Groups = append(s.event.Groups, group)
	}
}

func (s *scanner) scanExtra() {
	l := &s.lexer
	if !l.begin('{') {
		l.skip()
		return
	}
	for first := true; l.more('}', first); first = false {
		switch string(l.key()) {
		case "authentication.kubernetes.io/pod-name":
			s.scanLast(&s.event.Pod)
		case "authentication.kubernetes.io/node-name":
			s.scanLast(&s.event.Node)
		default:
			l.skip()
		}
	}
}

// scanLast consumes an array, and keeps its last string.
func (s *scanner) scanLast(into *[]byte) {
	l := &s.lexer
	if !l.begin('[') {
		l.skip()
		return
	}
	for first := true; l.more(']', first); first = false {
		s.text(into)
	}
}

func (s *scanner) scanStatus() {
	l := &s.lexer
	if !l.begin('{') {
		l.skip()
		return
	}
	for first := true; l.more('}', first); first = false {
		if string(l.key()) == "code" {
			s.event.Code = l.number()
			continue
		}
		l.skip()
	}
}

func (s *scanner) scanTime(into *int64) {
	var text []byte
	s.text(&text)
	if n, ok := parseMicros(text); ok {
		*into = n
	}
}

func parseMicros(text []byte) (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0, false
	}
	return t.UnixMicro(), true
}
