package auditlog

import (
	"slices"
	"time"
)

// Event has the fields of an audit event that say which client asked for what. Its bytes are
// valid until the next event is read: a caller that keeps them must copy them.
type Event struct {
	// AuditID identifies a request. It is the same at all stages.
	AuditID          []byte
	Stage, Verb, URI []byte
	// User is the impersonated user, or else the authenticated user.
	User, UserAgent []byte
	// Groups are the user's groups, nil unless Options.KeepGroups is set.
	Groups [][]byte
	// Pod and Node name the pod and its node, if the request came with a pod's token.
	Pod, Node []byte
	// Address is the last of the source addresses: the only one that a client cannot choose.
	Address []byte
	// Code is the HTTP status, 0 if there was none.
	Code int
	// ResponseBytes is the size of the answer's object as JSON, 0 if the log has none.
	ResponseBytes int
	// Received and StageReached are in microseconds since 1970, 0 if they are missing.
	Received, StageReached int64
}

// Time returns the time at which the stage was reached, or else the time at which the request
// was received, in microseconds since 1970. It returns 0 if the event has neither, and for a
// time before 1970.
func (e *Event) Time() int64 {
	if e.StageReached > 0 {
		return e.StageReached
	}
	return max(0, e.Received)
}

// Values of Event.Stage. Events of other stages (RequestReceived) are read as well.
const (
	StageStarted  = "ResponseStarted"
	StageComplete = "ResponseComplete"
	StagePanic    = "Panic"
)

// scanner reads one JSON object at a time: an event, or fields that may have events.
type scanner struct {
	// keepGroups says that Event.Groups is wanted.
	keepGroups bool
	// eventFields are the names of fields that may have events. The value is true for a list of
	// records, and false for one record.
	eventFields map[string]bool

	lexer lexer
	event Event
	// impersonated says that event.User is the impersonated user.
	impersonated bool
	// timestamp is the only time that early events of audit.k8s.io/v1beta1 have, in
	// microseconds since 1970.
	timestamp int64
	// list is the name of the list at whose start the scanner has stopped, or "".
	list string
	// payloads are the fields that may have events. The texts come first, because an object in
	// the same record often describes the text. textCount is the number of texts.
	payloads  []payload
	textCount int
	// mayBePiece says that the record has a field stream, as Docker's records have: the
	// record's text may be a piece of a line.
	mayBePiece bool
}

// payload is a field of a record that may have events.
type payload struct {
	key  string
	data []byte
	// text says that data is a string without quotes and escapes. Else it is a JSON object.
	text bool
}

// scanObject consumes an object, or the part of it up to the start of a list of records. It
// returns the number of bytes that it consumed. short says that data ends inside the object.
// ok is false if data is short or not JSON.
func (s *scanner) scanObject(data []byte) (n int, short, ok bool) {
	s.lexer = lexer{data: data, text: s.lexer.text[:0]}
	s.event = Event{Groups: s.event.Groups[:0]}
	s.impersonated, s.mayBePiece = false, false
	s.timestamp, s.textCount = 0, 0
	s.list = ""
	s.payloads = s.payloads[:0]
	l := &s.lexer
	if !l.begin('{') {
		l.fail()
	}
	for first := true; l.more('}', first); first = false {
		if s.member(); s.list != "" {
			break
		}
	}
	if s.event.Received == 0 && s.event.StageReached == 0 {
		s.event.Received = s.timestamp
	}
	return l.pos, l.short, !l.bad
}

// scanTail consumes the next member of an object after its list of records, or the end of the
// object. ended says that it was the end. n, short and ok are as in scanObject.
func (s *scanner) scanTail(data []byte) (n int, ended, short, ok bool) {
	s.lexer = lexer{data: data, text: s.lexer.text[:0]}
	s.list = ""
	if ended = !s.lexer.more('}', false); !ended {
		s.member()
	}
	return s.lexer.pos, ended, s.lexer.short, !s.lexer.bad
}

// member consumes a member of a record, or the start of a list of records.
func (s *scanner) member() {
	l := &s.lexer
	name := l.key()
	list, wraps := s.eventFields[string(name)]
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

// addPayload consumes a value that may have events, and keeps it.
func (s *scanner) addPayload(key string, text bool) {
	l, start := &s.lexer, s.lexer.pos
	if text {
		s.payloads = slices.Insert(s.payloads, s.textCount, payload{key, l.string(), true})
		s.textCount++
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
		s.scanText(&e.AuditID)
	case "stage":
		s.scanText(&e.Stage)
	case "verb":
		s.scanText(&e.Verb)
	case "requestURI":
		s.scanText(&e.URI)
	case "userAgent":
		s.scanText(&e.UserAgent)
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
		s.scanTime(&e.StageReached)
	case "timestamp":
		s.scanTime(&s.timestamp)
	case "stream":
		s.mayBePiece = true
		l.skip()
	default:
		l.skip()
	}
}

// scanText consumes a string into *dst. It skips a value that is not a string.
func (s *scanner) scanText(dst *[]byte) {
	if s.lexer.peek() == '"' {
		*dst = s.lexer.string()
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
			s.scanText(&s.event.User)
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
		s.scanText(&group)
		s.event.Groups = append(s.event.Groups, group)
	}
}

// scanExtra consumes the extra fields of a user, and keeps the names of its pod and node.
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

// scanLast consumes an array, and sets *dst to its last string.
func (s *scanner) scanLast(dst *[]byte) {
	l := &s.lexer
	if !l.begin('[') {
		l.skip()
		return
	}
	for first := true; l.more(']', first); first = false {
		s.scanText(dst)
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

func (s *scanner) scanTime(dst *int64) {
	var text []byte
	s.scanText(&text)
	if n, ok := parseMicros(text); ok {
		*dst = n
	}
}

// parseMicros returns a time of RFC 3339 in microseconds since 1970.
func parseMicros(text []byte) (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0, false
	}
	return t.UnixMicro(), true
}
