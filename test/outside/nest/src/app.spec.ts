import { Controller, Get, Module, Req } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import type { FastifyRequest } from 'fastify'
import tokenAuth, { InvalidToken, memorySessions } from 'fastify-token-auth'
import { createTestToken } from 'fastify-token-auth/testing'

@Controller()
class Orders {
  @Get('orders')
  orders (@Req() request: FastifyRequest) { return { id: request.tokenAuth.verified.userId } }

  @Get('open')
  open () { return 'open' }
}

@Module({ controllers: [Orders] })
class Application {}

test('an application of NestJS logs in and guards its routes', async () => {
  const adapter = new FastifyAdapter()
  const fastify = adapter.getInstance()
  const module = await Test.createTestingModule({ imports: [Application] }).compile()
  const app = module.createNestApplication<NestFastifyApplication>(adapter)
  await app.register(tokenAuth, { secret: 'k3pQz8vYw1sXc5dRf7gTh9jUl2mNb4oA', authenticate: async () => ({ user_id: 1 }), retrieveUser: async () => ({ user_id: 1 }), sessions: { store: memorySessions() } })
  app.getHttpAdapter().getInstance().addHook('onRequest', async (request, reply) => { if (request.url.startsWith('/orders')) await fastify.tokenAuth.protect()(request, reply) })
  await app.init()
  await fastify.ready()
  const login = await app.inject({ method: 'POST', url: '/auth', payload: {} })
  expect(login.statusCode).toBe(200)
  const token: string = login.json().access_token
  expect((await app.inject({ url: '/orders', headers: { authorization: `Bearer ${token}` } })).json()).toEqual({ id: 1 })
  expect((await app.inject('/orders')).statusCode).toBe(401)
  expect((await app.inject('/open')).body).toBe('open')
  expect(typeof await createTestToken(fastify.tokenAuth, { user_id: 1 })).toBe('string')
  expect(() => fastify.tokenAuth.verifyToken('x')).toThrow(InvalidToken)
  await app.close()
})
