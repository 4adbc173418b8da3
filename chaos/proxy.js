/** A network between a client and a server, which loses and delays what it carries. Only on 127.0.0.1. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** One connection through the proxy. */
class Tunnel {
  #client
  #server
  #plan
  #isSwallowing = false
  #isHolding = false
  /** Whether what the server says is lost, and whether something was. */
  #isMute = false
  #isBroken = false
  /** What waits until it is released. */
  #held = []
  #timers = new Set()

  /** @param plan what happens to the connection: `holdRequests` and `holdAnswers` in milliseconds, and whether it `losesAnswers` */
  constructor (client, target, plan, onClose) {
    this.#client = client
    this.#plan = plan
    this.#server = connect(target.port, target.host)
    client.on('data', (bytes) => this.#carry(() => this.#server.write(bytes), plan.holdRequests))
    this.#server.on('data', (bytes) => {
      if (plan.losesAnswers) this.reset()
      else if (this.#isMute) this.#isBroken = true
      else this.#carry(() => client.write(bytes), plan.holdAnswers)
    })
    // A little more, so that the server executes a late request before it sees that nobody waits.
    const delay = Math.max(plan.holdRequests ?? -300, plan.holdAnswers ?? -300) + 300
    for (const [socket, other] of [[client, this.#server], [this.#server, client]]) {
      socket.on('error', () => {}).on('close', () => {
        this.#carry(() => other.destroy(), delay)
        if (other.destroyed) onClose()
      })
    }
  }

  #carry (action, delay = 0) {
    if (this.#isSwallowing) return
    if (this.#isHolding) this.#held.push(action)
    else if (delay === 0) action()
    else this.#later(action, delay)
  }

  #later (action, delay) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      action()
    }, delay)
    this.#timers.add(timer)
  }

  hold () {
    this.#isHolding = true
  }

  release () {
    this.#isHolding = false
    for (const action of this.#held.splice(0)) action()
  }

  /** From now on, what the server says is lost. */
  mute () {
    this.#isMute = true
  }

  /** What the server says arrives again, unless a part of it was lost: then the connection is reset. */
  speak () {
    this.#isMute = false
    if (this.#isBroken) this.reset()
  }

  /** From now on, nothing arrives, and nobody is told. */
  swallow () {
    this.#isSwallowing = true
  }

  /** Both sides get a reset and no orderly end. */
  reset () {
    for (const timer of this.#timers) clearTimeout(timer)
    for (const socket of [this.#client, this.#server]) {
      // A reset of a socket that is being shut down fails, and leaves it open.
      if (socket.writableEnded) socket.destroy()
      else if (!socket.destroyed) socket.resetAndDestroy()
    }
  }
}

export class Proxy {
  #server
  #tunnels = new Set()
  #target
  #plan
  #isHolding = false
  #isMute = false
  #isSwallowing = false

  /** @param target `{ host, port }` @param plan called for each connection */
  static async to (target, plan = () => ({})) {
    const proxy = new Proxy()
    proxy.#target = target
    proxy.#plan = plan
    proxy.#server = createServer((client) => proxy.#connect(client)).listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port () {
    return this.#server.address().port
  }

  #connect (client) {
    const tunnel = new Tunnel(client, this.#target, this.#plan(), () => this.#tunnels.delete(tunnel))
    this.#tunnels.add(tunnel)
    if (this.#isHolding) tunnel.hold()
    if (this.#isMute) tunnel.mute()
    if (this.#isSwallowing) tunnel.swallow()
  }

  /** Connects to another server from now on. */
  moveTo (target) {
    this.#target = target
  }

  /** What is sent arrives when the returned function is called. */
  hold () {
    this.#isHolding = true
    for (const tunnel of this.#tunnels) tunnel.hold()
    return () => {
      this.#isHolding = false
      for (const tunnel of this.#tunnels) tunnel.release()
    }
  }

  /** What the server answers is lost until the returned function is called. */
  mute () {
    this.#isMute = true
    for (const tunnel of this.#tunnels) tunnel.mute()
    return () => {
      this.#isMute = false
      for (const tunnel of this.#tunnels) tunnel.speak()
    }
  }

  /** What is sent never arrives. The returned function lets new connections work, and returns another one that resets the old ones. */
  swallow () {
    this.#isSwallowing = true
    for (const tunnel of this.#tunnels) tunnel.swallow()
    return () => {
      this.#isSwallowing = false
      const halfOpen = [...this.#tunnels]
      return () => { for (const tunnel of halfOpen) tunnel.reset() }
    }
  }

  /** Resets all connections. */
  reset () {
    for (const tunnel of this.#tunnels) tunnel.reset()
  }

  close () {
    this.#server.close()
    this.reset()
  }
}
