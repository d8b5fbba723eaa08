package model

// prices are the constants of one kind of process: kube-apiserver, Millrace or a replica. CPU
// is in seconds of one processor, memory in bytes.
type prices struct {
	name string
	// Memory: without objects, in addition once it is read, for a byte of objects as JSON, for
	// a definition, a watch, a connection, and a watch that began with all others.
	base, used, objectByte, definition, watch, connection, begin float64
	// CPU: at rest (processors); a write or an event of the feed, at a quiet process and at a
	// busy one; an event to a replica, and to a watcher; a byte of it beyond the first ones.
	idle, takeQuiet, takeBusy, feedQuiet, event, eventByte float64
	// follow is an event that another server has written (servers alone). passOn is a write
	// that is passed on (replicas alone).
	follow, passOn float64
	// Reads.
	request, scanned, etcdGet, open, handshake, initialObject, initialByte float64
	listByte, gzipByte, gzipRatio                                          map[string]float64
	wakeups                                                                float64
}

// forms of LISTs that have prices of their own.
var pricedForms = []string{"json", "protobuf"}

func (r *constantReader) pricesOf(name string) *prices {
	of := func(constant string) float64 { return r.value(name + "." + constant) }
	p := &prices{
		name: name, base: of("base"), used: of("used"), objectByte: of("objectByte"), definition: of("definition"),
		watch: of("watch"), connection: of("connection"), begin: of("begin"), idle: of("idle"),
		event: of("event"), eventByte: of("eventByte"), request: of("request"), scanned: of("scanned"),
		open: of("open"), handshake: of("handshake"), initialObject: of("initialObject"), initialByte: of("initialByte"),
		listByte: map[string]float64{}, gzipByte: map[string]float64{}, gzipRatio: map[string]float64{},
		wakeups: r.value("wakeups"),
	}
	for _, form := range pricedForms {
		p.listByte[form], p.gzipByte[form], p.gzipRatio[form] = of("listByte."+form), of("gzipByte."+form), of("gzipRatio."+form)
	}
	if name == replica {
		p.takeQuiet, p.takeBusy, p.feedQuiet, p.passOn = of("followQuiet"), of("followBusy"), of("feedQuiet"), of("passOn")
		return p
	}
	p.takeQuiet, p.takeBusy, p.feedQuiet, p.follow = of("writeQuiet"), of("writeBusy"), p.event, of("follow")
	if name == kubernetes {
		p.etcdGet = of("etcdGet")
	}
	return p
}

// quietShare has the cost of something that comes at a rate: each time at the busy price, and
// so many times a second with what waking up adds.
func (p *prices) quietShare(quiet, busy, perSecond float64) float64 {
	return busy*perSecond + max(0, quiet-busy)*min(perSecond, p.wakeups)
}

// measuredEventBytes is the size of the events that prices of events were measured with.
const measuredEventBytes = 2436

// eventSeconds is the CPU of an event to a watcher.
func (p *prices) eventSeconds(bytes float64) float64 {
	return p.event + p.eventByte*max(0, bytes-measuredEventBytes)
}
