package model

import "github.com/millrace/millrace/internal/tool/price"

// prices has the constants of one kind of process: kube-apiserver, Millrace or a replica.
type prices struct {
	name string

	// Memory, in bytes.
	base       float64 // without objects
	used       float64 // in addition, once clients read at the process
	objectByte float64 // per byte of objects, as JSON
	definition float64 // of a custom resource
	watch      float64
	connection float64
	stormWatch float64 // in addition, per watch of a storm

	// CPU, in seconds of one processor.
	idle      float64 // per second without any work
	takeQuiet float64 // a write or an event of the feed that the process takes, if it was idle
	takeBusy  float64 // a write or an event of the feed that the process takes, if it was busy
	feedQuiet float64 // an event to a replica, from a process that was idle
	event     float64 // an event to a watcher
	eventByte float64 // a byte of an event beyond measuredEventBytes
	follow    float64 // an event that another server has written; 0 for replicas
	passOn    float64 // a write that is passed on; 0 for servers

	// CPU of reads, in seconds of one processor.
	request       float64 // a GET or LIST, without its objects
	scanned       float64 // an object that a LIST looks at
	etcdGet       float64 // in addition, for a GET that etcd answers
	open          float64 // the start of a watch
	handshake     float64 // a new connection
	initialObject float64 // an object among the initial events of a watch
	initialByte   float64 // a byte of the initial events of a watch
	// The maps are by encoding. gzipRatio is the compressed size, divided by the plain size.
	listByte, gzipByte, gzipRatio map[string]float64

	// quietRate is the number of writes or events per second that cost the price of an idle
	// process. Further ones cost the price of a busy process.
	quietRate float64
}

// pricedEncodings are the encodings of LISTs that have prices of their own.
var pricedEncodings = []string{price.JSON, price.Protobuf}

// pricesOf returns the prices of a kind of process: kubernetes, millrace or replica.
func (r *constantReader) pricesOf(name string) *prices {
	of := func(constant string) float64 { return r.value(name + "." + constant) }
	p := &prices{
		name: name, base: of("base"), used: of("used"), objectByte: of("objectByte"), definition: of("definition"),
		watch: of("watch"), connection: of("connection"), stormWatch: of("storm"), idle: of("idle"),
		event: of("event"), eventByte: of("eventByte"), request: of("request"), scanned: of("scanned"),
		open: of("open"), handshake: of("handshake"), initialObject: of("initialObject"), initialByte: of("initialByte"),
		listByte: map[string]float64{}, gzipByte: map[string]float64{}, gzipRatio: map[string]float64{},
		quietRate: r.value("quietRate"),
	}
	for _, encoding := range pricedEncodings {
		p.listByte[encoding] = of("listByte." + encoding)
		p.gzipByte[encoding] = of("gzipByte." + encoding)
		p.gzipRatio[encoding] = of("gzipRatio." + encoding)
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

// cpuAtRate returns the CPU, in processors, for events of one kind. quiet and busy are the prices
// of an event at an idle and at a busy process.
func (p *prices) cpuAtRate(quiet, busy, perSecond float64) float64 {
	return busy*perSecond + max(0, quiet-busy)*min(perSecond, p.quietRate)
}

// measuredEventBytes is the size of the events with which prices of events were measured.
const measuredEventBytes = 2436

// eventSeconds returns the CPU, in seconds, for an event of a size to one watcher.
func (p *prices) eventSeconds(bytes float64) float64 {
	return p.event + p.eventByte*max(0, bytes-measuredEventBytes)
}
