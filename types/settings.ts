import type { FastifyRequest } from 'fastify'
import type { Static } from '@sinclair/typebox'
import type { KeySetting, RouteSetting, Settings, settingsSchema } from '../lib/settings/schema.ts'
import type { MaybePromise } from './handlers.ts'

export type { Algorithm } from '../lib/keys/algorithms.ts'
export type { KeySetting, RouteSetting, SettingName, Settings } from '../lib/settings/schema.ts'

/** The settings that hold keys. */
export type KeySettings = Pick<Static<typeof settingsSchema>, KeySetting>

/** Makes a new refresh token; it may use the request and the user. */
export type GenerateRefreshToken<User> = (request: FastifyRequest, user: User) => MaybePromise<string>

/** Every setting that can be given, the keys and the generator of refresh tokens included. */
export interface AllSettings<User> extends Settings, KeySettings {
  /** Makes a refresh token from the request and the user. Default: 32 random bytes. */
  generateRefreshToken: GenerateRefreshToken<User>
}

export type Optional<T> = { [K in keyof T]?: T[K] | undefined }

/** Settings as values. */
export type SettingValues<User> = Optional<AllSettings<User>>

/** `set<Setting>`: the value of a setting, or a function that computes it once, at registration. */
export type SettingSetters<User> = {
  [K in keyof AllSettings<User> as `set${Capitalize<K>}`]?: AllSettings<User>[K] | (() => AllSettings<User>[K]) | undefined
}

/** `get<Setting>`: computes a setting from a request; at most once per request, and only if the setting is needed. Only keys may be computed asynchronously. */
export type SettingGetters<User> = {
  [K in Exclude<keyof AllSettings<User>, RouteSetting> as `get${Capitalize<K>}`]?:
    ((request: FastifyRequest) => K extends KeySetting ? MaybePromise<AllSettings<User>[K]> : AllSettings<User>[K]) | undefined
}

/**
 * Settings that one guard overrides for its route.
 * @interface
 */
export type SettingOverrides = Optional<Omit<Settings & KeySettings, RouteSetting>>
