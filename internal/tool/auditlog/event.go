package auditlog

import "time"

// Event has the fields of an audit event that tell who asked for what. Its bytes are valid
// until the scanner reads the next event.
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

// Scanner takes events out of lines. The zero value is ready.
type Scanner struct {
	// KeepGroups sets Event.Groups.
	KeepGroups bool

	lexer lexer
	event Event
	// impersonated says that the user is the impersonated one.
	impersonated bool
}

// Scan calls emit for the event of a line, or for each event of an EventList. It returns an
// error for a line that is no JSON object, or is cut off.
func (s *Scanner) Scan(line []byte, emit func(*Event)) error {
	s.lexer = lexer{data: line, text: s.lexer.text[:0]}
	s.scanObject(emit, true)
	if s.lexer.bad || s.lexer.peek() != 0 {
		return errMalformed
	}
	return nil
}

// scanObject consumes an event, or a list of events at the top.
func (s *Scanner) scanObject(emit func(*Event), top bool) {
	l := &s.lexer
	s.event, s.impersonated = Event{Groups: s.event.Groups[:0]}, false
	if !l.begin('{') {
		l.fail()
		return
	}
	isList := false
	for first := true; l.more('}', first); first = false {
		name := l.key()
		if top && string(name) == "items" && l.peek() == '[' {
			isList = true
			s.scanItems(emit)
			continue
		}
		s.scanField(name)
	}
	if !l.bad && !isList && len(s.event.Stage) > 0 {
		emit(&s.event)
	}
}

func (s *Scanner) scanItems(emit func(*Event)) {
	l := &s.lexer
	l.begin('[')
	for first := true; l.more(']', first); first = false {
		s.scanObject(emit, false)
	}
}

// scanField consumes the value of a field of an event.
func (s *Scanner) scanField(name []byte) {
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
	default:
		l.skip()
	}
}

// text consumes a string. It skips another value.
func (s *Scanner) text(into *[]byte) {
	if s.lexer.peek() == '"' {
		*into = s.lexer.string()
		return
	}
	s.lexer.skip()
}

// scanUser consumes a user, and keeps it if wanted.
func (s *Scanner) scanUser(wanted bool) {
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

func (s *Scanner) scanGroups() {
	l := &s.lexer
	if !s.KeepGroups || !l.begin('[') {
		l.skip()
		return
	}
	for first := true; l.more(']', first); first = false {
		var group []byte
		s.text(&group)
		s.event.Groups = append(s.event.Groups, group)
	}
}

func (s *Scanner) scanExtra() {
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
func (s *Scanner) scanLast(into *[]byte) {
	l := &s.lexer
	if !l.begin('[') {
		l.skip()
		return
	}
	for first := true; l.more(']', first); first = false {
		s.text(into)
	}
}

func (s *Scanner) scanStatus() {
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

func (s *Scanner) scanTime(into *int64) {
	var text []byte
	s.text(&text)
	if n, ok := parseMicros(text); ok {
		*into = n
	}
}

// parseMicros reads a time. The form that API servers write takes a tenth of the time that
// time.Parse needs.
func parseMicros(text []byte) (int64, bool) {
	const form = "0000-00-00T00:00:00.000000Z"
	if len(text) != len(form) {
		return parseAnyTime(text)
	}
	var n [7]int64
	field := 0
	for i, c := range text {
		switch want := form[i]; {
		case want == '0' && c >= '0' && c <= '9':
			n[field] = 10*n[field] + int64(c-'0')
		case want != '0' && c == want:
			field++
		default:
			return parseAnyTime(text)
		}
	}
	if n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 31 || n[3] > 23 || n[4] > 59 || n[5] > 59 {
		return parseAnyTime(text)
	}
	days := daysSince1970(n[0], n[1], n[2])
	return ((days*24+n[3])*60+n[4])*60*1e6 + n[5]*1e6 + n[6], true
}

func parseAnyTime(text []byte) (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0, false
	}
	return t.UnixMicro(), true
}

// daysSince1970 counts days of the Gregorian calendar. It counts years from March on, so
// that the leap day is the last of a year.
func daysSince1970(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 719469
}
